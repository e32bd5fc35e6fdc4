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

from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread

from planner.app.jupyter_extension import state_of_widgets

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
    # There is no trait for its class.
    kernelapp.IOPubThread = DirectPublisher  # type: ignore[attr-defined]
    PageKernelApp.launch_instance(argv)


class DirectPublisher(IOPubThread):
    """Sends what is published at once, in the thread that publishes it.

    That the kernel is busy with a message of a widget is not sent: nothing on the page
    shows it, and it would go before the answer. That it is idle again is: the page's
    scripts wait for that after each message.

    A lock keeps the threads apart: the one of the control channel, which publishes its
    state, and those that wait for the Hub.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - ipykernel's
        self._lock = RLock()
        super().__init__(*args, **options | {"pipe": False})

    def start(self) -> None:
        """Start no thread: without one, ipykernel sends at once."""

    def send_multipart(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - ipykernel's
        """Send the parts of a message."""
        if state_of_widgets(args[0]) != "busy":
            with self._lock:
                super().send_multipart(*args, **options)


class PageKernelApp(kernelapp.IPKernelApp):
    """The application of a kernel for one page."""

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
