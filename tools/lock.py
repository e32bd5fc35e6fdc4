"""Write requirements.lock: exact versions of what the extras need, with their hashes.

    make lock                     the newest versions
    python tools/lock.py --keep   the versions that it has, with today's hashes
    python tools/lock.py app      print what the app needs of it, for pip install -r

One file for every Python from 3.11 on and every platform; lines differ by environment
marker where they must. It names no index and no path, so it holds for any mirror: a
file that is not the one that was tested is refused, wherever it came from. What an
installation needs is the beginning of the file, up to the title of the next part.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"

HEADER = """\
# The versions that are installed and tested, with the SHA-256 of each of their files;
# made by `make lock` from pyproject.toml. vllm chooses its own versions.
"""
EXTRAS_OF = {
    "hub": ("hub",),
    "app": ("app", "gpu"),
    "lab": ("all",),
    "docs": ("docs",),
    "test": ("test",),
}
PARTS = tuple(EXTRAS_OF)
"""In their order in the file: each part is what its extras add to those before."""

COMMAND = (
    *("uv", "pip", "compile", "pyproject.toml"),
    *("--universal", "--python-version", "3.11", "--no-header", "--no-annotate"),
    *("--no-emit-index-url", "--no-emit-find-links", "--quiet", "--no-strip-extras"),
)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def main(arguments: list[str]) -> None:
    """Resolve anew and write the file, or print the parts up to one."""
    if arguments and arguments[0] in PARTS:
        print(upto(arguments[0], LOCK.read_text(encoding="utf-8")), end="")
        return
    kept = pins_of(LOCK.read_text(encoding="utf-8")) if "--keep" in arguments else []
    everything = _compiled(PARTS, kept, "--generate-hashes", "--upgrade")
    pins = pins_of(everything)
    needed = [
        {name_of(pin) for pin in pins_of(_compiled(PARTS[: number + 1], pins))}
        for number in range(len(PARTS))
    ]
    written = [HEADER.rstrip()]
    before: set[str] = set()
    for part, names in zip(PARTS, needed, strict=True):
        written.append(f"# {part}")
        written += [
            entry
            for entry in _entries(everything)
            if name_of(entry) in names and name_of(entry) not in before
        ]
        before |= names
    LOCK.write_text("\n".join(written) + "\n", encoding="utf-8")


def upto(part: str, lock: str) -> str:
    """Return the beginning of the lock file, with all that a part needs."""
    following = PARTS[PARTS.index(part) + 1 :]
    return lock.partition(f"\n# {following[0]}\n")[0] + "\n" if following else lock


def _compiled(parts: tuple[str, ...], pins: list[str], *options: str) -> str:
    """Return what uv resolves for these parts, within pins."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "pins.txt")
        limits.write_text("\n".join(pins), encoding="utf-8")
        extras = [extra for part in parts for extra in EXTRAS_OF[part]]
        words = [word for extra in extras for word in ("--extra", extra)]
        resolved = subprocess.run(
            [sys.executable, "-m", *COMMAND, *words, *options, "-c", str(limits)],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return resolved.stdout


def _entries(text: str) -> list[str]:
    """Return each pin with its hashes, which are on the lines that follow it."""
    joined = re.sub(r"^[ \t]*#.*\n", "", text, flags=re.MULTILINE)
    return re.findall(r"^\S.*(?:\n[ \t]+.*)*", joined, flags=re.MULTILINE)


def pins_of(text: str) -> list[str]:
    """Return the pins without their hashes."""
    return [
        entry.splitlines()[0].removesuffix("\\").strip() for entry in _entries(text)
    ]


def name_of(pin: str) -> str:
    """Return the package that a pin names."""
    found = _NAME.match(pin)
    assert found is not None
    return found[0]


if __name__ == "__main__":
    main(sys.argv[1:])
