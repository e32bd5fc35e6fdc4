"""`--film FILE` of the commands that start vLLM."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planner.confirming.film import Film
from planner.errors import PlannerError
from planner.user_files import user_path


def add_film(own: Any) -> None:  # noqa: ANN401 - argparse's own type is private
    """Give a command's parser the flag."""
    own.add_argument(
        "--film",
        metavar="FILE",
        help="keep the memory of the first GPU while vLLM starts: a page (.html), or "
        "a file for planner.learn.watch_a_start (.json)",
    )


def check_film(name: str | None) -> Path | None:
    """Return where the film will be, before minutes are spent on it.

    Raises:
        PlannerError: for a name that is neither of a page nor of a film, and for one
            in a folder that is not there.
    """
    if name is None:
        return None
    path = user_path(name)
    if path.suffix not in (".html", ".json"):
        raise PlannerError(f"--film {name}: a name that ends in .html or .json.")
    if not path.parent.is_dir():
        raise PlannerError(f"--film {name}: there is no folder {path.parent}.")
    return path


def save_film(film: Film | None, path: Path | None) -> None:
    """Write the film as the name of its file says."""
    if path is None:
        return
    if film is None:
        sys.stderr.write("planner: No film: vLLM did not become ready.\n")
    elif path.suffix == ".html":
        from planner.learn.film import watch_a_start  # noqa: PLC0415 - slow

        path.write_text(watch_a_start(film).to_html(), encoding="utf-8")
    else:
        film.write(path)
