"""Write the pages that nginx shows while the app cannot: `python tools/notices.py`.

What they say is in `planner/app/voila/notices.py`, how they look in `notice.html`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner.app.voila.notices import BY_NGINX, notice_html  # noqa: E402

PAGES = ROOT / "deploy" / "pages"


def main() -> int:
    """Write each page; return the exit status."""
    for name, notice in BY_NGINX.items():
        (PAGES / name).write_text(notice_html(notice), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
