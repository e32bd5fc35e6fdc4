"""Where this process runs: in a published app, or inside a web page.

A published app is open to strangers, so it starts nothing and reads no folder. Python
inside a web page, the browser edition, has no processes or threads, plotly or pandas.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

PUBLISHED = "PLANNER_PUBLISHED"
"""Environment variable; 1 for an app that others can open."""

NO_HARDWARE = (
    "This is a public page, which does not read its server's hardware. Pick a GPU from "
    "the list."
)

FILES = "PLANNER_FILES"
"""Environment variable: the folder whose files may be read, and no others; empty: none.

No server is asked then either. Where it is not set, the planner reads what its user
names.
"""

VOILA_BASE_URL = "VOILA_BASE_URL"
"""Environment variable that Voilà, and the app as well, gives its kernels."""

RUNTIME = "PLANNER_RUNTIME_DIR"
"""Environment variable: a folder that the processes of one server share."""

CACHE = "PLANNER_CACHE_DIR"
"""Environment variable: a folder for what can be made again."""

SHARE_AT = "PLANNER_SHARE_AT"
"""Environment variable: the address of an app that others can open, for links."""

_NAME = "vllm-memory-planner"


def is_published() -> bool:
    """Return whether people other than this machine's user can open the planner.

    >>> is_published()
    False
    """
    return os.environ.get(PUBLISHED, "") not in ("", "0")


def may_read(path: Path) -> bool:
    """Return whether a file or folder that somebody names may be read."""
    if is_published():
        return False
    allowed = os.environ.get(FILES)
    if allowed is None:
        return True
    try:
        return bool(allowed) and path.resolve().is_relative_to(Path(allowed).resolve())
    except (OSError, RuntimeError, ValueError):  # no path at all, or links in a circle
        return False


def asks_servers() -> bool:
    """Return whether the planner opens an address that somebody names."""
    return not is_published() and FILES not in os.environ


def is_page_address(text: str) -> bool:
    """Return whether a text is a page's address, to which a query can be added.

    >>> is_page_address("https://plan.example.org/app/"), is_page_address("app?x=1")
    (True, False)
    """
    return text.startswith(("https://", "http://")) and not set(text) & set("?#\"' <>")


def share_address() -> str:
    """Return the app's address for links that others open; empty without one.

    PLANNER_SHARE_AT names it, such as the browser edition's.
    """
    given = os.environ.get(SHARE_AT, "")
    return given if is_page_address(given) else ""


def runtime_folder() -> Path | None:
    """Return the folder that published processes of one server share, or create it.

    PLANNER_RUNTIME_DIR names it; otherwise it is in the folder for temporary files and
    readable by this user only. None where it cannot be created.
    """
    given = os.environ.get(RUNTIME)
    folder = Path(given) if given else _temporary_folder()
    try:
        folder.mkdir(mode=0o700, parents=bool(given), exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if given:
        return folder
    # Others may write to the folder for temporary files: a link or another user's
    # folder with this name is not ours.
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == _user()
    return folder if is_own and not found.st_mode & 0o077 else None


def data_folder() -> str | None:
    """Return the planner's folder for user data; None without a home folder.

    PLANNER_DATA_DIR overrides it.
    """
    given = os.environ.get("PLANNER_DATA_DIR")
    if given:
        return os.path.expanduser(given)  # noqa: PTH111 - as below
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _at_home("AppData", "Local")
    elif sys.platform == "darwin":
        base = _at_home("Library", "Application Support")
    else:
        xdg = os.environ.get("XDG_DATA_HOME", "")
        # The XDG standard requires relative paths to be ignored.
        base = xdg if xdg.startswith("/") else _at_home(".local", "share")
    return None if base is None else f"{base}{os.sep}{_NAME}"


def _at_home(first: str, second: str) -> str | None:
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without one
    return None if home == "~" else f"{home}{os.sep}{first}{os.sep}{second}"


def cache_folder(name: str) -> Path:
    """Return the folder of this user for what can be made again; it may not exist.

    PLANNER_CACHE_DIR overrides where it is; else XDG_CACHE_HOME does.
    """
    given = os.environ.get(CACHE)
    if given:
        return Path(given).expanduser() / name
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard requires relative paths to be ignored.
    base = Path(xdg) if xdg.startswith("/") else Path.home() / ".cache"
    return base / _NAME / name


def _temporary_folder() -> Path:
    from tempfile import gettempdir  # noqa: PLC0415 - slow

    place = gettempdir()
    return Path(place) / f"{_NAME}-{_user()}"


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def is_in_voila() -> bool:
    """Return whether this process is the kernel of a page that Voilà serves.

    Source: voila 0.5 `handler.py`, `voila_kernel_manager.py`; kernels made ahead too.
    """
    return VOILA_BASE_URL in os.environ


def is_in_browser() -> bool:
    """Return whether this Python runs inside a web page."""
    return sys.platform == "emscripten"
