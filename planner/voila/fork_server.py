"""A process that has imported everything, and forks one kernel after the other.

    python -m planner.voila.fork_server SOCKET

Starting Python and importing ipykernel, the widgets and the planner takes a kernel a
second of a processor; a forked copy of a process that has them needs a tenth of that,
and shares their memory. The server (`planner.voila.provisioner`) talks to this process
through the socket whose number is SOCKET: one JSON object a line.

    asked       {"fork": KEY, "argv": [...], "env": {...}, "cwd": PATH}
                {"signal": NUMBER, "pid": PID}
    answered    {"ready": true}
                {"forked": KEY, "pid": PID}
                {"ended": PID, "status": CODE}

It runs one thread only: a copy of a process has the thread that forked, and no other.
It ends when the other end of its socket is closed, and its kernels end with it.
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

from planner.published import is_published
from planner.voila import kernel_limits, log

_PR_SET_PDEATHSIG = 1
"""Linux: which signal a process gets when its parent ends. Source: `prctl(2)`."""
_CHUNK_BYTES = 1 << 16
_FAILED = 70


class Asked(Exception):  # noqa: N818 - leaves the parent's loop, in the copy only
    """In the new process: what it is to become."""

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__("a kernel is to start here")
        self.order = order


class Parent:
    """The loop of the process that forks."""

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
            Asked: in each copy.
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
        """Do what was asked; False when nobody asks any more."""
        chunk = self._connection.recv(_CHUNK_BYTES)
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            self._do(json.loads(line))
        return bool(chunk)

    def _do(self, order: dict[str, Any]) -> None:
        if "fork" in order:
            self._fork(order)
        elif order["pid"] in self._children:  # one that ended has no number any more
            _signal(order["pid"], order["signal"])

    def _fork(self, order: dict[str, Any]) -> None:
        # The copy must not get a signal for this process before it has let go of it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            raise Asked(order)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._children.add(pid)
        self._tell(forked=order["fork"], pid=pid)

    def _reap(self) -> None:
        """Tell which kernels ended, and how."""
        for pid in tuple(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.remove(pid)
                self._tell(ended=pid, status=os.waitstatus_to_exitcode(status))

    def _tell(self, **fields: object) -> None:
        self._connection.sendall(json.dumps(fields).encode() + b"\n")

    def let_go(self) -> None:
        """In a copy: close what belongs to the parent."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._connection.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)


def _signal(pid: int, number: int) -> None:
    """Signal a kernel with all that it started, as jupyter_client does."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not made its group yet
        os.kill(pid, number)


def preload() -> None:
    """Import what a kernel of the app uses, and let it fill its caches once."""
    # Nobody debugs a kernel here; the debugger costs each one 10 MB.
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.ipkernel  # noqa: PLC0415
    import ipykernel.kernelapp  # noqa: F401, PLC0415
    from comm import get_comm_manager  # noqa: PLC0415
    from ipywidgets import Widget  # noqa: PLC0415

    from planner.widgets.explorer import Explorer  # noqa: PLC0415

    # No kernel runs here: what the widgets send goes nowhere.
    Explorer()._repr_mimebundle_()
    Widget.close_all()
    # ipywidgets does this when it is imported in a kernel, and also lets a page make
    # widgets of any class, which this one never does.
    answer = Widget.handle_control_comm_opened
    get_comm_manager().register_target("jupyter.widget.control", answer)


def _become_kernel(order: dict[str, Any], parent: int) -> None:
    """Run a kernel in this process as `python -m ipykernel_launcher` would."""
    os.setsid()
    _end_with(parent)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    if is_published():
        kernel_limits.limit()
    _keep_quiet()
    from ipykernel.kernelapp import IPKernelApp  # noqa: PLC0415

    IPKernelApp.launch_instance(order["argv"])


def _keep_quiet() -> None:
    """Write to the server's log only what its rules allow, and nothing else.

    ipykernel greets who starts it, and notes messages that it does not understand.
    """
    own_log = os.fdopen(os.dup(2), "w")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    handler = log.handler(own_log, published=is_published())
    logging.getLogger("planner").addHandler(handler)
    # Jupyter notes each page's first message, and trips over its own end.
    logging.getLogger().addHandler(logging.NullHandler())


def _end_with(parent: int) -> None:
    """Let the kernel end when the process that forked it does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that was set
        os._exit(_FAILED)


def main() -> None:
    """Preload, then fork; each copy leaves through its own kernel."""
    own_pid = os.getpid()
    parent = Parent(socket.socket(fileno=int(sys.argv[1])))
    preload()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every shared page
    try:
        parent.run()
    except Asked as asked:
        order = asked.order
    else:
        return
    parent.let_go()
    try:
        _become_kernel(order, own_pid)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else _FAILED
    except BaseException:  # noqa: BLE001 - nothing above this may run in a copy
        traceback.print_exc()
        status = _FAILED
    else:
        status = 0
    sys.exit(status)


if __name__ == "__main__":
    main()
