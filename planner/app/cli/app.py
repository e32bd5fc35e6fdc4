"""`planner app`: the planner in the browser."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planner.app.cli.shared import FITS, Output
from planner.app.voila import options as chosen
from planner.errors import PlannerError
from planner.surroundings import is_page_address

_NEEDED = ("voila", "ipywidgets", "anywidget", "plotly")
_LOCAL_POOL, _LOCAL_SESSIONS = 2, 20
_PUBLISHED_POOL, _PUBLISHED_SESSIONS = 10, 60
_HIGHEST_PORT = 65535
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.*\[\]:-]+")
_LOCAL, _EVERYWHERE = "127.0.0.1", "0.0.0.0"
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")

EXAMPLES = (
    "planner app",
    "planner app --port 8899",
    "planner app --address 0.0.0.0 --published",
    "planner app --room",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="where to listen; any but this machine's own publishes the app "
        f"(default: {_LOCAL}, with --room every network)",
    )
    parser.add_argument(
        "--port", type=int, metavar="N", default=8866, help="default: %(default)s"
    )
    parser.add_argument(
        "--base-url",
        metavar="PATH",
        default="/",
        help="the path that a server in front passes on, as in /planner/",
    )
    parser.add_argument(
        "--published",
        action="store_true",
        help="safe for strangers: starts nothing, reads no folder of this machine",
    )
    parser.add_argument(
        "--room",
        action="store_true",
        help="a room that votes: phones in this network open its address, and you its "
        "screen; publishes the app",
    )
    parser.add_argument(
        "--max-sessions",
        type=int,
        metavar="N",
        help="open pages at most; later visitors have to wait "
        f"(default: {_LOCAL_SESSIONS}, published {_PUBLISHED_SESSIONS})",
    )
    parser.add_argument(
        "--pool",
        type=int,
        metavar="N",
        help="pages drawn ahead for the next visitors "
        f"(default: {_LOCAL_POOL}, published {_PUBLISHED_POOL})",
    )
    parser.add_argument(
        "--per-network",
        type=int,
        metavar="N",
        help="open pages at most of one address, or of one IPv6 network "
        "(default: published half of --max-sessions, else all)",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a proxy in front, or its network, whose X-Real-IP names the visitor's "
        "address; may be repeated",
    )
    parser.add_argument(
        "--frame-ancestor",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a site whose pages may show the app in a frame, as in "
        "https://wiki.example.org; may be repeated",
    )
    parser.add_argument(
        "--share-at",
        metavar="URL",
        default="",
        help="an app that others can open, such as the browser edition: Share links "
        "to it where this app's address is this machine's only",
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="print the address, and do not open it",
    )
    parser.add_argument("--notebook", type=Path, help=argparse.SUPPRESS)


def run(options: dict[str, Any], _out: Output) -> int:
    """Serve the app until it is ended, and return the exit status."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise PlannerError(
            f"The app needs {', '.join(missing)}. "
            "Run: pip install 'vllm-memory-planner[app]'"
        )

    from planner.app.voila.app import serve  # noqa: PLC0415 - slow

    serve(options_of(options))
    return FITS


def options_of(options: dict[str, Any]) -> chosen.Options:
    """Return the options of the app from parsed flags.

    Raises:
        PlannerError: for a number that is out of bounds, or an origin that is none.
    """
    address = options["address"] or (_EVERYWHERE if options["room"] else _LOCAL)
    published = options["published"] or not chosen.is_loopback(address)
    pool = _PUBLISHED_POOL if published and not options["room"] else _LOCAL_POOL
    most = _PUBLISHED_SESSIONS if published else _LOCAL_SESSIONS
    sessions = _between("--max-sessions", options["max_sessions"], 1, 1000, most)
    share = (sessions + 1) // 2 if published else sessions
    return chosen.Options(
        address=address,
        port=_between("--port", options["port"], 1, _HIGHEST_PORT),
        base_url=options["base_url"],
        published=published,
        pool=_between("--pool", options["pool"], 0, 1000, pool),
        max_sessions=sessions,
        per_network=_between("--per-network", options["per_network"], 1, 1000, share),
        trusted_proxies=tuple(options["trusted_proxy"]),
        frame_ancestors=tuple(map(_origin, options["frame_ancestor"])),
        share_at=_page(options["share_at"]),
        room=options["room"],
        opens_browser=not (published or options["no_browser"]) and _has_browser(),
        notebook=options["notebook"] or chosen.NOTEBOOK,
    )


def _origin(text: str) -> str:
    """Return an origin as it is.

    Raises:
        PlannerError: for what is none.
    """
    if not _ORIGIN.fullmatch(text):
        raise PlannerError(
            f"--frame-ancestor {text!r} is not an origin such as "
            "https://wiki.example.org: scheme, host and port, without a path."
        )
    return text


def _page(text: str) -> str:
    """Return a page's address as it is; empty without one.

    Raises:
        PlannerError: for what is none.
    """
    if text and not is_page_address(text):
        raise PlannerError(
            f"--share-at {text!r} is not the address of a page such as "
            "https://plan.example.org/: with https, and without a query."
        )
    return text


def _has_browser() -> bool:
    """Return whether a person started this, on a machine that shows windows."""
    if not sys.stderr.isatty():
        return False
    is_seen = any(os.environ.get(name) for name in _DISPLAYS)
    return is_seen or sys.platform in ("darwin", "win32")


def _between(
    flag: str, given: int | None, lowest: int, highest: int, default: int = 0
) -> int:
    """Return the given number, or the default.

    Raises:
        PlannerError: for a number that is out of bounds.
    """
    if given is None:
        return default
    if not lowest <= given <= highest:
        raise PlannerError(f"{flag} {given} is not between {lowest} and {highest}.")
    return given
