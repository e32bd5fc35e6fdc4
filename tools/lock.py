"""Write requirements.lock: the exact versions of the `all`, `docs` and `test` extras.

    make lock

One file for every Python from 3.11 on and every platform; lines differ by environment
marker where they must. It names no index and no path, so it holds for any mirror.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"

HEADER = """\
# The versions that are installed and tested; made by `make lock` from pyproject.toml.
# pip reads this file as constraints. vllm chooses its own versions.
"""

COMMAND = (
    *("uv", "pip", "compile", "pyproject.toml"),
    *("--extra", "all", "--extra", "docs", "--extra", "test"),
    *("--universal", "--python-version", "3.11", "--upgrade"),
    *("--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"),
)


def main() -> None:
    """Resolve anew and write the file."""
    resolved = subprocess.run(
        [sys.executable, "-m", *COMMAND],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    LOCK.write_text(HEADER + resolved.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
