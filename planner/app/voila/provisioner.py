"""A kernel provisioner for jupyter_client that starts kernels by the fork server.

Source: jupyter_client `provisioning/provisioner_base.py` KernelProvisionerBase, the
documented way to start kernels other than by a new process each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import subprocess
import sys
from asyncio import Future
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

NAME = "planner-fork"
_KILLED = -9


class ForkedKernel:
    """A kernel's process, with the interface of subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self.returncode

    def wait(self) -> int | None:
        """Return the exit status; called after `poll` returned one."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal the kernel and all processes it started, unless it ended."""
        if self.returncode is None:
            self._server.signal(self.pid, number)

    def end(self, status: int) -> None:
        """Record that the process ended."""
        self.returncode = status
        self.ended.set()


class ForkServer:
    """The client of `planner.app.voila.fork_server`; one per process."""

    _running: ClassVar[ForkServer | None] = None

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # a module of the folder that it is started in is not ours
                    "-m",
                    f"{__package__}.fork_server",
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket = ours
        self._keys = itertools.count()
        self._kernels: dict[int, ForkedKernel] = {}
        self._pending: dict[int, Future[ForkedKernel]] = {}
        self._connecting: asyncio.Task[asyncio.StreamWriter] | None = None
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    def instance(cls) -> ForkServer:
        """Return the running instance, or start one."""
        if cls._running is None:
            cls._running = cls()
        return cls._running

    @property
    def pid(self) -> int:
        """The id of the process that forks."""
        return self._process.pid

    async def fork(
        self, argv: list[str], env: dict[str, str], cwd: str
    ) -> ForkedKernel:
        """Start a kernel.

        Raises:
            ConnectionError: when the fork server ended.
        """
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        await self._connecting
        key = next(self._keys)
        request: Future[ForkedKernel] = asyncio.get_running_loop().create_future()
        self._pending[key] = request
        self._send(fork=key, argv=argv, env=env, cwd=cwd)
        return await request

    async def _connect(self) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_unix_connection(sock=self._socket)
        self._listening = asyncio.create_task(self._listen(reader))
        return writer

    def signal(self, pid: int, number: int) -> None:
        """Signal a kernel; the fork server checks that the process still exists."""
        self._send(signal=number, pid=pid)

    @classmethod
    def end(cls) -> None:
        """End the fork server, if it runs, and with it every kernel."""
        server, cls._running = cls._running, None
        if server is not None:
            server._process.kill()
            server._process.wait()
            server._socket.close()

    def _send(self, **order: object) -> None:
        if self._connecting is not None and self._connecting.done():
            self._connecting.result().write(json.dumps(order).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._handle(json.loads(line))
        finally:
            self._end_all()

    def _handle(self, reply: dict[str, Any]) -> None:
        if "forked" in reply:
            kernel = ForkedKernel(self, reply["pid"])
            self._kernels[reply["pid"]] = kernel
            request = self._pending.pop(reply["forked"])
            if not request.cancelled():
                request.set_result(kernel)
        elif "ended" in reply:
            self._kernels.pop(reply["ended"]).end(reply["status"])

    def _end_all(self) -> None:
        """Record that the fork server ended, and its kernels with it."""
        if ForkServer._running is self:
            ForkServer._running = None
        for kernel in self._kernels.values():
            kernel.end(_KILLED)
        self._kernels.clear()
        for request in self._pending.values():
            request.set_exception(
                ConnectionError("The process that starts kernels ended.")
            )
        self._pending.clear()


class ForkProvisioner(LocalProvisioner):
    """Starts a kernel by forking the fork server; the rest is jupyter_client's."""

    process: ForkedKernel | None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:  # noqa: ANN401
        """Start the kernel that `cmd` names: `python -m ipykernel_launcher ...`.

        Raises:
            ConnectionError: when the fork server ended.
        """
        argv = cmd[cmd.index("ipykernel_launcher") + 1 :]
        cwd = str(kwargs.get("cwd") or Path.cwd())
        self.process = await ForkServer.instance().fork(argv, kwargs["env"], cwd)
        self.pid = self.process.pid
        self.cwd = cwd
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Signal the kernel and all processes it started."""
        if self.process is not None:
            self.process.send_signal(signum)


def is_available() -> bool:
    """Return whether this system can safely fork a process with loaded libraries.

    macOS has fork, but its system libraries do not survive it.
    """
    return sys.platform == "linux"


def register() -> None:
    """Register the provisioner with jupyter_client, in this process only.

    An entry point would offer it to every Jupyter of the environment.
    """
    value = f"{__name__}:{ForkProvisioner.__name__}"
    group = KernelProvisionerFactory.GROUP_NAME
    entry = EntryPoint(name=NAME, value=value, group=group)
    KernelProvisionerFactory.provisioners[NAME] = entry
