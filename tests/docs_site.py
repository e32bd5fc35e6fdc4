"""The documentation site, built once for all tests that look at it."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TextIO

from tests.conftest import ROOT

DOCS = ROOT / "docs"
TOO_LARGE = ("ray", "torch", "vllm")

# As `make docs` does, with every connection refused.
_BUILD = f"""
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"{{event}} {{arguments}}")

sys.addaudithook(refuse)
from sphinx.cmd.build import main
status = main(sys.argv[1:])
print("imported:", *sorted({set(TOO_LARGE)!r} & set(sys.modules)))
sys.exit(status)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a build left, and what it said."""

    folder: Path
    status: int
    said: str

    @property
    def pages(self) -> list[Path]:
        """Every page, the search among them."""
        return sorted(
            page
            for page in self.folder.rglob("*.html")
            if "_static" not in page.relative_to(self.folder).parts
        )

    def names(self) -> dict[str, str]:
        """Return the place of every name of the reference, by the name."""
        raw = (self.folder / "objects.inv").read_bytes()
        listed = zlib.decompress(raw.split(b"\n", 4)[4]).decode()
        entries = [line.split(" ", 4) for line in listed.splitlines()]
        return {
            name: place.replace("$", name)
            for name, kind, _priority, place, _title in entries
            if kind.startswith("py:")
        }


@cache
def built() -> Site:
    """Build the site, offline; of the workers of one run, the first builds for all."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    place = Path(tempfile.gettempdir(), f"planner-docs-{run}")
    place.mkdir(exist_ok=True)
    users = (place / "users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)
    atexit.register(_leave, place, users)
    with (place / "builder").open("w") as builder:
        fcntl.flock(builder, fcntl.LOCK_EX)
        said = place / "said.json"
        if not said.exists():
            status, text = _build(place)
            said.write_text(json.dumps({"status": status, "said": text}), "utf-8")
        return Site(folder=place / "site", **json.loads(said.read_text("utf-8")))


def _leave(place: Path, users: TextIO) -> None:
    """Take the site away with the last process that looks at it."""
    with suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)


def _build(place: Path) -> tuple[int, str]:
    words = ["-q", "-W", "--keep-going", "-E", "-d", str(place / "cache")]
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, *words, str(DOCS), str(place / "site")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


class Parts(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort one tag's addresses."""
        given = {name: value for name, value in attrs if value is not None}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        address = given.get("src") or given.get("href")
        if address is None:
            return
        if tag == "a":
            self.links.append(address)
        elif tag != "link" or given.get("rel") != "canonical":
            self.loaded.append(address)


@cache
def parts(page: Path) -> Parts:
    """Read one page."""
    return Parts(page.read_text(encoding="utf-8"))
