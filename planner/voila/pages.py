"""The addresses that the server answers for, besides files and kernels' sockets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from planner.voila.sessions import AppIsFull

RETRY_SECONDS = 20
"""When the page that says 'full' asks again."""
_HERE = Path(__file__).parent


class AppHandler(JupyterHandler):
    """What every address of the app has in common: it tells no log who asked."""

    def _request_summary(self) -> str:
        """Name the request in a log: neither the visitor's address nor the query."""
        return f"{self.request.method} {type(self).__name__}"

    def write_error(self, status_code: int, **_details: object) -> None:
        """Say what went wrong in one line, with nothing of the request in it."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {self._reason}\n")

    def compute_etag(self) -> None:
        """Leave out the tag: nothing here is asked for twice."""


class PageHandler(AppHandler):
    """GET /: the app, drawn by the kernel that this visitor has from now on."""

    async def get(self) -> None:
        """Send a page, or say that there is no room."""
        self.set_header("Cache-Control", "no-store")
        try:
            self._page = await self.kernel_manager.visit()
        except AppIsFull:
            self._say_full()
            return
        if self.request.connection.stream.closed():
            self.kernel_manager.give_back(self._page)
            return
        self._send(self._page.html)

    def head(self) -> None:
        """Answer without a kernel."""
        self.set_header("Content-Type", "text/html; charset=utf-8")

    def _say_full(self) -> None:
        self.set_status(503)
        self.set_header("Retry-After", str(RETRY_SECONDS))
        text = (_HERE / "full.html").read_text(encoding="utf-8")
        page = text.replace("RETRY_SECONDS", str(RETRY_SECONDS))
        self._send(gzip.compress(page.encode()))

    def _send(self, packed: bytes) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Vary", "Accept-Encoding")
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            self.finish(packed)
        else:
            self.finish(gzip.decompress(packed))


class HealthHandler(AppHandler):
    """GET /healthz: for monitors; tells nothing of any visitor."""

    def get(self) -> None:
        """Say how many pages are open; 503 when no kernel can be started."""
        health = self.kernel_manager.health()
        self.set_status(503 if health["status"] == "failing" else 200)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(health))


class KernelHandler(AppHandler):
    """GET /api/kernels/ID: whether the page's own kernel lives; nothing else."""

    def get(self, kernel_id: str) -> None:
        """Describe a visitor's kernel to who knows its id."""
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        self.set_header("Cache-Control", "no-store")
        self.finish(self.kernel_manager.kernel_model(kernel_id))


class ShutdownHandler(AppHandler):
    """POST /voila/api/shutdown/ID: the page says that it goes away."""

    async def post(self, kernel_id: str) -> None:
        """End a visitor's kernel; what is no such id is passed over."""
        await self.kernel_manager.end(kernel_id)
        self.set_status(204)
        self.finish()

    def check_xsrf_cookie(self) -> None:
        """Let the page's beacon through, which carries no token.

        No login exists that another site could use; who knows the id may end that
        kernel, and no other.
        """


class MissingHandler(AppHandler):
    """Everything else."""

    def prepare(self) -> None:
        """Answer every method the same."""
        raise HTTPError(404)
