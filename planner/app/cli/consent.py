"""Asks before vLLM is started with what a text names that may run code.

The flags that a user typed are the user's own; what a file or a command after `--`
says may be a stranger's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from planner.errors import PlannerError

TRUST_TEXT = "--trust-text"
_YES = ("y", "yes")


def add_consent(parser: argparse._ActionsContainer) -> None:
    """Give a command that starts vLLM the flag that answers beforehand."""
    parser.add_argument(
        TRUST_TEXT,
        action="store_true",
        help="do not ask before a start that may run code which the text that was "
        "read names",
    )


def check_consent(options: dict[str, Any]) -> None:
    """Take the question and its answer out of the options, and ask if need be.

    Raises:
        PlannerError: where the answer is no, or nobody can be asked.
    """
    asked: Sequence[str] = options.pop("asked", ())
    if options.pop("trust_text") or not asked:
        return
    listed = "".join(f"\n  {one}" for one in asked)
    named = f"The text that was read has settings that may run code:{listed}\n"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PlannerError(
            f"{named}Nothing was started. Read them, then give {TRUST_TEXT} to start "
            "vLLM with them, or take them out of the text."
        )
    sys.stderr.write(f"{named}Start vLLM with them? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in _YES:
        raise PlannerError("Nothing was started.")
