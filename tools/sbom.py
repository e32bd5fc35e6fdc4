"""Write build/sbom.cdx.json: what the app consists of, as CycloneDX. `make sbom`.

cyclonedx-py lists the whole environment, with versions, licences and what needs what.
Here what only tests and documentation need is left out (all but the first part of
requirements.lock), and the files of others that the package itself holds are added.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.lock import LOCK, name_of, pins_of, upto  # noqa: E402

WRITTEN = ROOT / "build" / "sbom.cdx.json"
_VENDORED = ROOT / "planner" / "app" / "widgets" / "vendored"
_PLOTLY = re.compile(r"plotly\.js \(basic - minified\) v([\d.]+)")


def main(program: str) -> int:
    """Write the bill of this environment; return the exit status."""
    listed = subprocess.run(
        [
            *(program, "environment", "--output-reproducible"),
            *("--pyproject", "pyproject.toml", sys.executable),
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    pins = pins_of(upto("app", LOCK.read_text(encoding="utf-8")))
    bill = shipped(json.loads(listed.stdout), {plain(name_of(pin)) for pin in pins})
    bill["components"].append(vendored())
    WRITTEN.parent.mkdir(exist_ok=True)
    WRITTEN.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    print(f"{WRITTEN}: {len(bill['components'])} components")
    return 0


def plain(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def shipped(bill: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return the bill with these packages only."""
    kept = [one for one in bill["components"] if plain(one["name"]) in names]
    known = {one["bom-ref"] for one in kept}
    root = bill["metadata"].get("component", {}).get("bom-ref")
    needs = [
        one | {"dependsOn": [ref for ref in one.get("dependsOn", []) if ref in known]}
        for one in bill.get("dependencies", [])
        if one["ref"] in known or one["ref"] == root
    ]
    return bill | {"components": kept, "dependencies": needs}


def vendored() -> dict[str, Any]:
    """Return the component that the package holds a copy of.

    Raises:
        ValueError: if the copy does not say which version it is.
    """
    text = (_VENDORED / "plotly-basic.min.js").read_text(encoding="utf-8")
    version = _PLOTLY.search(text)
    if version is None:
        raise ValueError("plotly.js does not say which version it is.")
    return {
        "type": "library",
        "bom-ref": "vendored-plotly.js",
        "name": "plotly.js-basic-dist-min",
        "version": version[1],
        "purl": f"pkg:npm/plotly.js-basic-dist-min@{version[1]}",
        "licenses": [{"license": {"id": "MIT"}}],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
