"""Where the user's own measurements lie, by the rules of the operating system."""

from __future__ import annotations

import os
import sys

from planner.published import is_published

_NAME = "vllm-memory-planner"
_OFF = ("off", "0", "false", "no")


def is_off() -> bool:
    """Return whether to leave the measurements aside, as PLANNER_CALIBRATION may say.

    A published app does: its visitors have other machines than its publisher.
    """
    return (
        is_published()
        or os.environ.get("PLANNER_CALIBRATION", "").strip().lower() in _OFF
    )


def data_folder() -> str | None:
    """Return the planner's folder of user data; None where the user has no home.

    PLANNER_DATA_DIR names another one.
    """
    given = os.environ.get("PLANNER_DATA_DIR")
    if given:
        return os.path.expanduser(given)  # noqa: PTH111 - as below
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _at_home("AppData", "Local")
    elif sys.platform == "darwin":
        base = _at_home("Library", "Application Support")
    else:
        asked = os.environ.get("XDG_DATA_HOME", "")
        # The standard says to leave a relative folder aside.
        base = asked if asked.startswith("/") else _at_home(".local", "share")
    return None if base is None else f"{base}{os.sep}{_NAME}"


def records_folder() -> str | None:
    """Return the folder of this schema's records; it need not exist."""
    base = data_folder()
    return None if base is None else f"{base}{os.sep}calibration{os.sep}v1"


def _at_home(first: str, second: str) -> str | None:
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without one
    return None if home == "~" else f"{home}{os.sep}{first}{os.sep}{second}"
