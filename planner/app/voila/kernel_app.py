"""ipykernel's application for the kernel of one page: fewer threads, fewer messages.

ipykernel passes every message of a page through a thread of its own, so that further
shells could run beside the first, and every answer through another. A step of a slider
is one message and four answers, and their hand-overs took as long as the answer itself.
Here the thread that runs the widgets also reads and writes the messages.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import RLock
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets import default

_IN_EACH_KERNEL = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "ipykernel.debugger",
    "tornado.platform.asyncio",
    "tornado.queues",
)
"""What ipykernel imports only when a kernel starts."""


def prepare() -> None:
    """Import what every kernel imports, before it is forked."""
    for name in _IN_EACH_KERNEL:
        with suppress(ImportError):  # another version of IPython may lack it
            import_module(name)


def launch(argv: list[str]) -> None:
    """Run a kernel in this process, as `python -m ipykernel_launcher` would."""
    PageKernelApp.launch_instance(argv)


class DirectPublisher(IOPubThread):
    """Sends what is published at once, in the thread that publishes it.

    A lock keeps the threads apart: the one of the control channel, which publishes its
    state, and those that wait for the Hub.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - ipykernel's
        self._lock = RLock()
        super().__init__(*args, **options)

    def start(self) -> None:
        """Start no thread: without one, ipykernel sends at once."""

    def send_multipart(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - ipykernel's
        """Send the parts of a message."""
        with self._lock:
            super().send_multipart(*args, **options)


class PageKernel(IPythonKernel):
    """A kernel that does not say that it is busy with a message of a widget.

    Nothing on the page shows it, and it would go before the answer. That the kernel is
    idle again is said: the page's scripts wait for that after each message.
    """

    def _publish_status(
        self, status: str, channel: str, parent: dict[str, Any] | None = None
    ) -> None:
        about = parent or self.get_parent(channel)
        kind = (about or {}).get("header", {}).get("msg_type")
        if status != "busy" or kind != "comm_msg":
            super()._publish_status(status, channel, parent)


class PageKernelApp(IPKernelApp):
    """The application of a kernel for one page."""

    @default("kernel_class")
    def _default_kernel_class(self) -> type[PageKernel]:
        return PageKernel

    def init_sockets(self) -> None:
        """Bind the sockets; the main thread reads the one for requests itself.

        Source: ipykernel 7.4 `kernelapp.py`, `init_kernel`; before 7.0 there is no such
        thread.
        """
        super().init_sockets()
        thread = getattr(self, "shell_channel_thread", None)
        if thread is not None:
            thread.io_loop.close()
            self.shell_channel_thread = None

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """Bind the socket for what is published; the publishing thread writes to it."""
        self.iopub_socket = context.socket(zmq.XPUB)
        self.iopub_socket.linger = 1000
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = DirectPublisher(self.iopub_socket, session=self.session)
        self.iopub_socket = self.iopub_thread.background_socket
