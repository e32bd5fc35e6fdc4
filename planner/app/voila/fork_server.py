"""A process that has imported everything and forks kernels.

    python -m planner.app.voila.fork_server SOCKET

For a new kernel, starting Python and importing ipykernel, the widgets and the planner
takes a second of CPU time; forking a process that has imported them takes a tenth of
that, and shares their memory. The server (`planner.app.voila.provisioner`) talks to
this process through the socket with the file descriptor SOCKET, one JSON object a line.

    requests    {"fork": KEY, "argv": [...], "env": {...}, "cwd": PATH}
                {"signal": NUMBER, "pid": PID}
    replies     {"ready": true}
                {"forked": KEY, "pid": PID}
                {"ended": PID, "status": CODE}

It has only one thread, since a fork copies only the thread that calls it. It ends when
the other end of its socket is closed, and its kernels end with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from planner.app.voila import kernels, log
from planner.surroundings import is_published

_PR_SET_PDEATHSIG = 1
"""Linux: sets the signal that a process gets when its parent ends. Source: `prctl(2)`.
"""
_CHUNK_BYTES = 1 << 16
_FAILED = 70


class ForkRequested(Exception):  # noqa: N818 - control flow, not an error
    """Raised in the new process to leave the parent's loop; holds the request."""

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__("a kernel is to start here")
        self.order = order


class Parent:
    """The process that forks: its loop, its socket and its children."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self._children: set[int] = set()
        self._wake_reader, self._wake_writer = os.pipe()
        for end in (self._wake_reader, self._wake_writer):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Serve until the other end is closed.

        Raises:
            ForkRequested: in each new process.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer)
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            self._tell(ready=True)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wake_reader in ready:
                    os.read(self._wake_reader, _CHUNK_BYTES)
                self._reap()
                if self._connection in ready and not self._receive():
                    return

    def _receive(self) -> bool:
        """Handle requests; False when the other end is closed."""
        chunk = self._connection.recv(_CHUNK_BYTES)
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            self._do(json.loads(line))
        return bool(chunk)

    def _do(self, order: dict[str, Any]) -> None:
        if "fork" in order:
            self._fork(order)
        elif order["pid"] in self._children:  # another process may have its id by now
            _signal(order["pid"], order["signal"])

    def _fork(self, order: dict[str, Any]) -> None:
        # The copy must not get a signal meant for this process before `let_go`.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            raise ForkRequested(order)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._children.add(pid)
        self._tell(forked=order["fork"], pid=pid)

    def _reap(self) -> None:
        """Report which kernels ended, and their status."""
        for pid in tuple(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.remove(pid)
                self._tell(ended=pid, status=os.waitstatus_to_exitcode(status))

    def _tell(self, **fields: object) -> None:
        self._connection.sendall(json.dumps(fields).encode() + b"\n")

    def let_go(self) -> None:
        """In the new process: close what belongs to the parent."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._connection.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)


def _signal(pid: int, number: int) -> None:
    """Signal a kernel and all processes it started, as jupyter_client does."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not created its group yet
        os.kill(pid, number)


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
    parent = Parent(socket.socket(fileno=int(sys.argv[1])))
    kernels.keep_little()  # what is set here holds in all that are forked
    preload()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every shared page
    try:
        parent.run()
    except ForkRequested as requested:
        order = requested.order
    else:
        return
    parent.let_go()
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
