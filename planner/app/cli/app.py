"""`planner app`: the planner in the browser."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planner.app.cli.shared import FITS
from planner.app.voila import options as chosen
from planner.errors import PlannerError
from planner.late import late

_NEEDED = ("voila", "ipywidgets", "anywidget", "plotly")
_LOCAL_POOL, _LOCAL_SESSIONS = 2, 20
_PUBLISHED_POOL, _PUBLISHED_SESSIONS = 10, 60
_HIGHEST_PORT = 65535


EXAMPLES = (
    "planner app",
    "planner app --port 8899",
    "planner app --address 0.0.0.0 --published",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="where to listen; any but this machine's own publishes the app "
        "(default: %(default)s)",
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
    parser.add_argument("--notebook", type=Path, help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise PlannerError(
            f"The app needs {', '.join(missing)}. "
            "Run: pip install 'vllm-memory-planner[app]'"
        )
    published = options["published"] or not chosen.is_loopback(options["address"])
    pool = _PUBLISHED_POOL if published else _LOCAL_POOL
    sessions = _PUBLISHED_SESSIONS if published else _LOCAL_SESSIONS
    late(
        "planner.app.voila.app:serve",
        chosen.Options(
            address=options["address"],
            port=_between("--port", options["port"], 1, _HIGHEST_PORT),
            base_url=options["base_url"],
            published=published,
            pool=_between("--pool", options["pool"], 0, 1000, pool),
            max_sessions=_between(
                "--max-sessions", options["max_sessions"], 1, 1000, sessions
            ),
            notebook=options["notebook"] or chosen.NOTEBOOK,
        ),
    )
    return FITS


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
