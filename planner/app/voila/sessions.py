"""The pool of kernels: rendered pages, a limit on open ones, cleanup of lost ones.

A page is rendered before it is requested, by the kernel that will serve it. Nothing is
rendered ahead while a visitor waits, since both would need the same processor.
"""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import os
import time
from collections import Counter, deque
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.ioloop import PeriodicCallback
from traitlets import Bool, Float, Integer, Unicode
from voila.notebook_renderer import NotebookRenderer

from planner.app.voila.kernels import give_back
from planner.app.voila.visits import AppIsFull, Keeping, NetworkIsFull, Page, Session
from planner.surroundings import VOILA_BASE_URL

_TEND_MILLISECONDS = 500
_TIDY_MILLISECONDS = 60_000
_COMPRESSION = 6
_RUSH_SECONDS = 0.5
"""How long after a message controls count as still moving."""


class Sessions(Keeping):
    """Renders pages, gives each to one visitor, ends kernels whose visitor left."""

    pool_size = Integer(2, config=True, help="Pages that wait for the next visitors.")
    max_sessions = Integer(20, config=True, help="Pages that may be open.")
    per_network = Integer(
        0, config=True, help="Pages that one network may open; 0: all of them."
    )
    at_once = Integer(3, config=True, help="Kernels that start at the same time.")
    settle_seconds = Float(
        1.5, config=True, help="How long after a visit none is drawn ahead."
    )
    rush_seconds = Float(
        20, config=True, help="The same while visitors move their controls."
    )
    arrive_seconds = Float(
        30, config=True, help="How long a kernel waits for its page to connect."
    )
    lost_seconds = Float(
        60, config=True, help="How long a kernel waits for its page to come back."
    )
    idle_seconds = Float(
        0, config=True, help="How long a page may be idle; 0: as long as it likes."
    )
    ends_at_once = Bool(
        False, config=True, help="End kernels without asking them to finish."
    )
    kernel_folder = Unicode("", config=True, help="Where kernels work.")

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self._ready: deque[Page] = deque()
        self._waiting: deque[asyncio.Future[Page]] = deque()
        self._arriving: Counter[str] = Counter()
        self._starting = 0
        self._sessions: dict[str, Session] = {}
        self._last_visit = -self.settle_seconds
        self._last_message = self._last_visit
        self._tidied_at = self._last_visit
        self._failed_at: float | None = None
        self._ending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exporter: Any = None
        self._tending = PeriodicCallback(self._tend, _TEND_MILLISECONDS)
        self._tidying = PeriodicCallback(self._tidy, _TIDY_MILLISECONDS)

    # Read by Voila, which renders no page itself here.
    notebook_data: dict[str, Any] = {}  # noqa: RUF012

    def get_pool_size(self, _notebook: str) -> int:
        """Return 0: Voila renders no page itself."""
        return 0

    def begin(self) -> None:
        """Start rendering pages, and watching kernels."""
        self._tending.start()
        self._tidying.start()
        self._work()

    @property
    def in_use(self) -> int:
        """The number of visitors who have a page or wait for one."""
        return len(self._sessions) + len(self._waiting)

    def health(self) -> dict[str, object]:
        """Return the state for monitors."""
        failing = self._failed_at is not None and not self._ready
        status = "failing" if failing else "full" if self._is_full else "ok"
        return {
            "status": status,
            "sessions": self.in_use,
            "max_sessions": self.max_sessions,
            "pool": len(self._ready),
            "pool_size": self.pool_size,
        }

    @property
    def _is_full(self) -> bool:
        return self.in_use >= self.max_sessions

    async def visit(self, network: str = "") -> Page:
        """Return a page for one visitor, as soon as there is one.

        Raises:
            AppIsFull: when all pages are open; NetworkIsFull: the network's share.
        """
        if self._is_full:
            raise AppIsFull
        if self.per_network and self._places_of(network) >= self.per_network:
            raise NetworkIsFull
        self._last_visit = time.monotonic()
        self._arriving[network] += 1
        try:
            page = self._take() or await self._wait()
        finally:
            self._arriving[network] -= 1
            self._arriving += Counter()  # without those who have arrived
        now = time.monotonic()
        session = Session(began=now, alone_since=now, network=network)
        self._sessions[page.kernel_id] = session
        return page

    def _places_of(self, network: str) -> int:
        """Return how many pages a network has, or waits for."""
        networks = [one.network for one in self._sessions.values()]
        return networks.count(network) + self._arriving[network]

    def give_back(self, page: Page) -> None:
        """Take back a page that was never sent: its visitor did not wait."""
        if self._sessions.pop(page.kernel_id, None) is not None:
            self._offer(page)

    def is_open(self, kernel_id: str) -> bool:
        """Return whether a visitor has this kernel."""
        return kernel_id in self._sessions

    def connected(self, kernel_id: str) -> None:
        """Record that a page is connected to its kernel."""
        if session := self._sessions.get(kernel_id):
            session.alone_since = None
            session.was_connected = True

    def disconnected(self, kernel_id: str) -> None:
        """Record that no page is connected to a kernel any more."""
        if session := self._sessions.get(kernel_id):
            session.alone_since = time.monotonic()

    def received(self, kernel_id: str) -> None:
        """Record that a page sent a message."""
        self._last_message = time.monotonic()
        if session := self._sessions.get(kernel_id):
            session.active_at = self._last_message

    def start_watching_activity(self, kernel_id: str) -> None:
        """Watch none: pages' messages count, see `received`.

        Jupyter would parse every message of the kernel for it, which is half of this
        process's work when many sliders move, and end kernels when the clock is set.
        """
        kernel = self.get_kernel(kernel_id)
        kernel.execution_state = "idle"
        kernel.reason = ""
        kernel.last_activity = datetime.now(UTC)

    def start_buffering(
        self, kernel_id: str, session_key: str, channels: dict[str, Any]
    ) -> None:
        """Keep nothing where the kernel is ending; Jupyter keeps it there, too."""
        super().start_buffering(kernel_id, session_key, channels)
        if not self.is_open(kernel_id):
            self.stop_buffering(kernel_id)

    async def end(self, kernel_id: str) -> None:
        """End a visitor's kernel; ignore other kernels."""
        if self._sessions.pop(kernel_id, None) is not None:
            self.parent.disconnect(kernel_id)
            await self._shut_down(kernel_id)

    async def _shut_down(self, kernel_id: str) -> None:
        if kernel_id in self:
            await self.shutdown_kernel(kernel_id, now=self.ends_at_once)

    def _take(self) -> Page | None:
        while self._ready:
            page = self._ready.popleft()
            if page.kernel_id in self:
                return page
        return None

    async def _wait(self) -> Page:
        future: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._work()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._offer(future.result())
            raise
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def _offer(self, page: Page) -> None:
        """Give a page to the visitor who has waited longest, or keep it."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(page)
                return
        self._ready.append(page)

    def _work(self) -> None:
        """Start the kernels that are wanted, a few at a time."""
        for _ in range(self._wanted() - self._starting):
            self._starting += 1
            # A kernel outlives the request that caused it, and must not keep it alive.
            empty = contextvars.Context()
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._start(), context=empty)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _wanted(self) -> int:
        if self._waiting:
            return min(len(self._waiting), self.at_once)
        now = time.monotonic()
        if now - self._last_visit < self._pause(now):
            return 0
        if self._failed_at is not None and now - self._failed_at < self.settle_seconds:
            return 0
        left = self.max_sessions - len(self._sessions)
        missing = max(min(self.pool_size, left) - len(self._ready), 0)
        return min(missing, 1 if self._sessions else self.at_once)

    def _pause(self, now: float) -> float:
        """Return how long after a visit no page is rendered ahead: longer in a rush."""
        is_rush = now - self._last_message < _RUSH_SECONDS
        return self.rush_seconds if is_rush else self.settle_seconds

    async def _start(self) -> None:
        """Render one page, for a visitor or for the pool."""
        try:
            page = await self._draw()
        except Exception as error:
            self._failed_at = time.monotonic()
            self.log.exception("A kernel could not be started.")
            self._forget_failed()
            if self._waiting:
                self._waiting.popleft().set_exception(error)
        else:
            self._failed_at = None
            self._offer(page)
        finally:
            self._starting -= 1
            if self._waiting or not self._sessions:
                self._work()  # otherwise the next page can wait for `_tend`

    def _forget_failed(self) -> None:
        """Remove what failed starts leave: tasks and files; empty ones on a full disk.

        A file that is being written has its content before anything else runs here.
        """
        folder = Path(self.connection_dir)
        for name in [n for n, task in self._pending_kernels.items() if task.done()]:
            del self._pending_kernels[name]
            (folder / f"kernel-{name}.json").unlink(missing_ok=True)
        for file in folder.glob("kernel-*.json"):
            if not file.stat().st_size:
                file.unlink()

    async def _draw(self) -> Page:
        renderer = self._renderer()
        await renderer.initialize()
        # A new exporter would compile the templates again.
        self._exporter = renderer.exporter = self._exporter or renderer.exporter
        kernel_id = await ensure_async(
            self.start_kernel(
                kernel_name=renderer.notebook.metadata.kernelspec.name,
                env={**os.environ, VOILA_BASE_URL: "/"},
                cwd=self.kernel_folder or str(Path.cwd()),
            )
        )
        try:
            html = await renderer.generate_content_str(
                kernel_id, self.get_kernel(kernel_id)
            )
        except BaseException:  # the kernel may never have answered
            if client := getattr(getattr(renderer, "executor", None), "kc", None):
                await ensure_async(client.stop_channels())
            await self._shut_down(kernel_id)
            raise
        packed = await asyncio.to_thread(gzip.compress, html.encode(), _COMPRESSION)
        return Page(kernel_id=kernel_id, html=packed)

    def _renderer(self) -> Any:  # noqa: ANN401 - Voila ships no types
        app = self.parent
        return NotebookRenderer(
            voila_configuration=app.voila_configuration,
            traitlet_config=app.config,
            notebook_path=os.path.relpath(app.notebook_path, app.root_dir),
            template_paths=app.template_paths,
            config_manager=app.config_manager,
            contents_manager=app.contents_manager,
            base_url=app.base_url,
            kernel_spec_manager=app.kernel_spec_manager,
            page_config=app.page_config,
        )

    async def _tend(self) -> None:
        """End kernels of lost pages, drop those that died, render ahead."""
        now = time.monotonic()
        lost = [name for name, one in self._sessions.items() if self.is_lost(one, now)]
        for kernel_id in lost:
            # Its page may have come back, or left, while another one was ended.
            session = self._sessions.get(kernel_id)
            if session is not None and self.is_lost(session, now):
                await self._alone(self.end(kernel_id))
        for kernel_id in self.list_kernel_ids():
            await self._alone(self._forget_if_dead(kernel_id))
        self._work()

    async def _alone(self, step: Coroutine[Any, Any, None]) -> None:
        """Let one kernel's failure keep no other from being looked after."""
        try:
            await step
        except Exception:
            self.log.exception("A kernel could not be looked after.")

    def _tidy(self) -> None:
        """Return free memory in a quiet moment, since it takes a tenth of a second."""
        busy_at = max(self._last_visit, self._last_message)
        if self._tidied_at < busy_at < time.monotonic() - self.settle_seconds:
            give_back()
            self._tidied_at = time.monotonic()

    def is_lost(self, session: Session, now: float) -> bool:
        """Return whether a page is away or idle for too long, or never connected."""
        if self.idle_seconds and now - session.active_at >= self.idle_seconds:
            return True
        if session.alone_since is None:
            return False
        patience = self.lost_seconds if session.was_connected else self.arrive_seconds
        return now - session.alone_since >= patience

    async def _forget_if_dead(self, kernel_id: str) -> None:
        """Drop a kernel that ended by itself, and its page's connection."""
        kernel = self.get_kernel(kernel_id) if kernel_id in self else None
        provisioner = getattr(kernel, "provisioner", None)
        if provisioner is None or not provisioner.has_process:
            return  # it is starting or ending
        if await provisioner.poll() is None:
            return
        self._sessions.pop(kernel_id, None)
        self._ready = deque(p for p in self._ready if p.kernel_id != kernel_id)
        self.parent.disconnect(kernel_id)
        if kernel_id in self:
            await self.shutdown_kernel(kernel_id, now=True)

    async def shutdown_kernel(self, kernel_id: str, **options: object) -> None:
        """End a kernel once, however often it is requested."""
        self._sessions.pop(kernel_id, None)
        if kernel_id in self._ending:
            return
        self._ending.add(kernel_id)
        try:
            await ensure_async(super().shutdown_kernel(kernel_id, **options))
        finally:
            self._ending.discard(kernel_id)
