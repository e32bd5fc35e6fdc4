"""Take a version of plotly.js's basic bundle from npm into the package.

    python tools/plotly_bundle.py 4.1.1

npm checks what it downloads against the registry's hash. The bundle and its licence
are written as they are.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.app.widgets.static_files import FILE_NAME, VENDORED

PACKAGE = "plotly.js-basic-dist-min"
FILES = {FILE_NAME: FILE_NAME, "LICENSE": "plotly-LICENSE.txt"}
"""What is taken, and its name here."""


def take(version: str) -> None:
    """Download a version, and write its files.

    Raises:
        subprocess.CalledProcessError: when npm has no such version.
    """
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", f"{PACKAGE}@{version}"], cwd=folder, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as files:
            for name, here in FILES.items():
                content = files.extractfile(f"package/{name}")
                assert content is not None  # a plain file
                (VENDORED / here).write_bytes(content.read())


if __name__ == "__main__":
    take(*sys.argv[1:])
