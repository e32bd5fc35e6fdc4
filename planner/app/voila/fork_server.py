"""A process that has imported everything and forks kernels.

    python -m planner.app.voila.fork_server SOCKET

For a new kernel, starting Python and importing ipykernel, the widgets and the planner
takes a second of CPU time; forking a process that has imported them takes a tenth of
that, and shares their memory. The server (`planner.app.voila.provisioner`) talks to
this process through the socket with the file descriptor SOCKET:

    request     {"argv": [...], "env": {...}, "cwd": PATH}, a line
    answer      the new process's id, a line

It has only one thread, since a fork copies only the thread that calls it. It ends when
the other end of its socket is closed, and its kernels end with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.app.voila import kernels, log
from planner.surroundings import is_published

_PR_SET_PDEATHSIG = 1
"""Linux: sets the signal that a process gets when its parent ends. Source: `prctl(2)`.
"""
_FAILED = 70


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request, until the other end is closed.

    Returns the request in the process that is new, None in this one.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Linux then forgets who ended
    with connection, connection.makefile("rb") as requests:
        for line in requests:
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                order: dict[str, Any] = json.loads(line)
                return order
            connection.sendall(b"%d\n" % pid)
    return None


def preload() -> None:
    """Import what a kernel of the app uses, and fill its caches once."""
    # Kernels are not debugged here, and the debugger takes 10 MB of each.
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    from planner.app.voila.kernel_app import prepare  # noqa: PLC0415 - slow

    prepare()
    from comm import get_comm_manager  # noqa: PLC0415 - only in the fork server
    from ipywidgets import Widget  # noqa: PLC0415 - only in the fork server

    # No kernel runs here, so what the widgets send is discarded.
    from planner.app.widgets.explorer import Explorer  # noqa: PLC0415 - slow

    Explorer()._repr_mimebundle_()
    Widget.close_all()
    # ipywidgets registers this when it is imported in a kernel, together with a target
    # that creates widgets of any class, which pages must not use.
    answer = Widget.handle_control_comm_opened
    get_comm_manager().register_target("jupyter.widget.control", answer)


def _become_kernel(order: dict[str, Any], parent: int) -> None:
    """Run a kernel in this process, as `python -m ipykernel_launcher` would."""
    os.setsid()
    _end_with(parent)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    if is_published():
        kernels.limit()
    _keep_quiet()
    from planner.app.voila.kernel_app import launch  # noqa: PLC0415 - slow

    launch(order["argv"])


def _keep_quiet() -> None:
    """Write only what the rules of the server's log allow.

    ipykernel prints a greeting, and logs messages that it does not understand.
    """
    own_log = os.fdopen(os.dup(2), "w")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    handler = log.handler(own_log, published=is_published())
    logging.getLogger((__package__ or "").partition(".")[0]).addHandler(handler)
    # Jupyter warns about each page's first message, and logs errors when it ends.
    logging.getLogger().addHandler(logging.NullHandler())


def _end_with(parent: int) -> None:
    """End the kernel when the process that forked it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(_FAILED)


def main() -> None:
    """Preload, then fork; each new process runs a kernel and exits with it."""
    own_pid = os.getpid()
    connection = socket.socket(fileno=int(sys.argv[1]))
    kernels.keep_little()  # what is set here holds in all that are forked
    preload()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every shared page
    order = None
    with suppress(ConnectionError):  # the server was killed
        order = serve(connection)
    if order is None:
        return
    try:
        _become_kernel(order, own_pid)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else _FAILED
    except BaseException:  # noqa: BLE001 - the caller must not go on in a copy
        traceback.print_exc()
        status = _FAILED
    else:
        status = 0
    sys.exit(status)


if __name__ == "__main__":
    main()
