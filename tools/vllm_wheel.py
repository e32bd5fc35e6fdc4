"""Install vLLM's build for NVIDIA GPUs into this Python's environment: for dry runs.

usage: PYTHON tools/vllm_wheel.py RELEASE

The wheel and what it requires, as pip would install them, except that certifi may be
older than required: vLLM asks for the list of authorities of its own day, which a
mirror may not hold yet, and a dry run contacts nobody. PyTorch is taken as it is named,
without a local version: where an index also offers builds for processors, pip would
prefer "2.13.0+cpu" to "2.13.0".
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

_RELAXED = re.compile(r"certifi\b")
_UNCACHED = ("--no-cache-dir", "--no-compile")
"""Python compiles a module when it is first imported: few of them are."""
_AS_NAMED = re.compile(r"(torch)\s*==\s*([\d.]+)\Z")


def main(release: str) -> None:
    """Download the wheel, install what it requires, then the wheel itself."""
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-deps", "--dest", folder, f"vllm=={release}")
        (wheel,) = Path(folder).glob("vllm-*.whl")
        listed = Path(folder, "requirements.txt")
        listed.write_text("\n".join(requirements(wheel)), encoding="utf-8")
        _pip("install", *_UNCACHED, "--requirement", str(listed))
        _pip("install", *_UNCACHED, "--no-deps", str(wheel))


def requirements(wheel: Path) -> list[str]:
    """Return what a wheel requires without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    found = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return [
        "certifi" if _RELAXED.match(one) else _AS_NAMED.sub(r"\1===\2", one)
        for one in found
        if "extra ==" not in one
    ]


def _pip(*words: str) -> None:
    quiet = ("--disable-pip-version-check", "--quiet")
    done = subprocess.run([sys.executable, "-m", "pip", *words, *quiet], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main(sys.argv[1])
