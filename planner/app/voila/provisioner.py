"""A kernel provisioner for jupyter_client that starts kernels by the fork server.

Source: jupyter_client `provisioning/provisioner_base.py` KernelProvisionerBase, the
documented way to start kernels other than by a new process each.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

NAME = "planner-fork"
_UNKNOWN_STATUS = 255
"""As asyncio says of a process whose status another one was told."""


class ForkedKernel:
    """A kernel's process, with the interface of subprocess.Popen.

    Its descriptor means this process, also after its number was given to another one.
    Source: Linux `pidfd_open(2)`.

    Raises:
        ProcessLookupError: where it has ended already.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return a status once it has ended; None while it runs."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if ended.poll(0):
                self.returncode = _UNKNOWN_STATUS
                os.close(self._descriptor)
        return self.returncode

    wait = poll

    def send_signal(self, number: int) -> None:
        """Signal the kernel and all processes it started, unless it ended."""
        if self.poll() is not None:
            return
        with suppress(ProcessLookupError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # it has not created its group yet
                signal.pidfd_send_signal(self._descriptor, number)


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
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    def instance(cls) -> ForkServer:
        """Return the running instance, or start one."""
        if cls._running is None or cls._running._process.poll() is not None:
            cls._running = cls()
        return cls._running

    async def fork(
        self, argv: list[str], env: dict[str, str], cwd: str
    ) -> ForkedKernel:
        """Start a kernel.

        Raises:
            ConnectionError: when the fork server ended.
        """
        order = json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode() + b"\n"
        # Who does not wait must not leave the answer to the next.
        return await asyncio.shield(asyncio.ensure_future(self._fork(order)))

    async def _fork(self, order: bytes) -> ForkedKernel:
        async with self._turn:
            if self._streams is None:
                self._streams = await asyncio.open_unix_connection(sock=self._socket)
            reader, writer = self._streams
            writer.write(order)
            pid = await reader.readline()
        if not pid:
            raise ConnectionError("The process that starts kernels ended.")
        return ForkedKernel(int(pid))

    @classmethod
    def end(cls) -> None:
        """End the fork server, if it runs, and with it every kernel."""
        server, cls._running = cls._running, None
        if server is not None:
            server._process.kill()
            server._process.wait()
            server._socket.close()


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
    """Return whether a process with loaded libraries can be forked here, and watched.

    macOS has fork, but its system libraries do not survive it; Linux has descriptors of
    processes since 5.3, which some containers refuse.
    """
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def register() -> None:
    """Register the provisioner with jupyter_client, in this process only.

    An entry point would offer it to every Jupyter of the environment.
    """
    value = f"{__name__}:{ForkProvisioner.__name__}"
    group = KernelProvisionerFactory.GROUP_NAME
    entry = EntryPoint(name=NAME, value=value, group=group)
    KernelProvisionerFactory.provisioners[NAME] = entry
