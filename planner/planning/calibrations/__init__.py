"""Measurements of starts on the user's own GPUs, stored for later plans.

Read in this order: `key` (what identifies a start), `record` (one start), `store` and
`reading` (files), `apply` (a record becomes the lines of a plan);
`planner.confirming.calibration` makes a record of a confirmation.
PLANNER_CALIBRATION=off disables all of it.
"""

from __future__ import annotations

import os

from planner.surroundings import data_folder, is_published

_OFF = ("off", "0", "false", "no")


def is_off() -> bool:
    """Whether measurements are disabled, such as by PLANNER_CALIBRATION=off.

    They are in a published app, whose visitors have other machines than its publisher.
    """
    return (
        is_published()
        or os.environ.get("PLANNER_CALIBRATION", "").strip().lower() in _OFF
    )


def records_folder() -> str | None:
    """Return the folder of this schema's records, which may not exist."""
    base = data_folder()
    return None if base is None else f"{base}{os.sep}calibration{os.sep}v1"


def may_have_records() -> bool:
    """Whether there is a folder with records, or one that cannot be looked at."""
    folder = None if is_off() else records_folder()
    if folder is None:
        return False
    try:
        os.stat(folder)  # noqa: PTH116 - in every plan
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
