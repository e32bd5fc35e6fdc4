"""Find the parts of scripts that the app's page loads, to send them as one file.

    python tools/page_parts.py      writes planner/app/voila/bundled.json

Run it after an update of Voila, ipywidgets or anywidget. It opens the page in headless
Chromium with the joined file blocked, so that the page fetches every part by itself.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.ui import servers  # noqa: E402

TARGET = ROOT / "planner" / "app" / "voila" / "bundled.json"
_PART = re.compile(r"/assets/\w+/((?:voila|labextensions)/[^?]+\.js)")
_ASKED_FOR_BY_NAME = ("voila/voila.js", "voila/voila-style.js", "remoteEntry")
_SETTLE_MS = 3000


def parts(addresses: list[str]) -> list[str]:
    """Return the names of the parts among addresses, in the order of the page."""
    found = (_PART.search(address) for address in addresses)
    names = dict.fromkeys(match[1] for match in found if match)
    return [
        name for name in names if not any(word in name for word in _ASKED_FOR_BY_NAME)
    ]


def asked() -> list[str]:
    """Open the page, and return all that it asked for."""
    addresses: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.served(Path(folder)) as app,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
        )
        page = browser.new_page()
        page.route("**/page/bundle.js", lambda route: route.abort())
        page.on("request", lambda request: addresses.append(request.url))
        page.goto(app.address)
        page.wait_for_selector("input[type=range]", timeout=30_000)
        page.wait_for_timeout(_SETTLE_MS)
        browser.close()
    return addresses


def main() -> int:
    """Write the list; the result is the exit status."""
    names = parts(asked())
    TARGET.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    print(f"{len(names)} parts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
