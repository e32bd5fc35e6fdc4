"""Request handlers of the app except files and sockets; the page's static files."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import threading
from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import lru_cache
from http.client import responses
from pathlib import Path
from types import TracebackType

from jupyter_core.paths import jupyter_path
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from planner.app.voila.access import Owner, Visitors, is_for_a_page
from planner.app.voila.files import Assets
from planner.app.voila.notices import (
    CROWDED,
    FULL,
    REFUSED,
    RETRY_SECONDS,
    Notice,
    notice_html,
)
from planner.app.voila.visits import AppIsFull, NetworkIsFull
from planner.app.widgets import pieces, static_files
from planner.app.widgets.static_files import lean
from planner.errors import PlannerError

_HERE = Path(__file__).parent
SHARE = _HERE / "share" / "jupyter"
TEMPLATE = "planner"
EXTENSIONS = (
    "@jupyter-widgets/jupyterlab-manager",
    "@voila-dashboards/widgets-manager8",
    "anywidget",
)
"""JupyterLab's extensions that the page loads to show widgets."""
_THEME = "theme-light.css"
"""JupyterLab's variables, which widgets' styles use; page.css sets their colours."""
_GUESS_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
_IMPATIENT = re.compile(rb'(respond in time"\)+,)4e3\b')
"""Jupyter's scripts wait so long for a kernel to tell of its widgets. Then they ask for
each by a message that is not answered, and the page stays without controls for good."""
_WIDGETS_MILLISECONDS = 60_000
_DRAWING = threading.Lock()
"""A cache draws again for each request that comes before the first is answered."""
FORBIDDEN = 403
_PAGE_FILES = (".css", ".woff2", ".svg", ".png")


def gather(static_paths: Iterable[str]) -> Assets:
    """Gather the files that the page may request."""
    assets = Assets()
    for folder in map(Path, static_paths):
        # Jupyter Server's own files are in the same list.
        if (folder / "voila.js").is_file():
            assets.add_folder("voila", folder)
    for extension in EXTENSIONS:
        for root in _homes(extension):
            assets.add_folder(f"labextensions/{extension}", root)
    for path in (SHARE / "voila" / "templates" / TEMPLATE).iterdir():
        if path.suffix in _PAGE_FILES:
            assets.paths[f"page/{path.name}"] = path
        elif path.suffix == ".js":
            source = path.read_text(encoding="utf-8")
            assets.texts[f"page/{path.name}"] = lean(source).encode()
    assets.paths[f"page/{_THEME}"] = _theme()
    assets.texts[f"page/{static_files.FILE_NAME}"] = static_files.for_page()
    first = f"(() => {{\n{static_files.script('first.js')}}})();\n"
    assets.texts["page/first.js"] = first.encode()
    assets.texts["page/bundle.js"] = _bundle(assets)
    return assets


class AppHandler(JupyterHandler):
    """The base of the app's handlers, which logs nothing about visitors.

    On one's own machine they answer the owner only.
    """

    async def prepare(self) -> None:
        """Refuse everybody but the owner, where there is one.

        Raises:
            HTTPError: for a request without the owner's cookie.
        """
        await super().prepare()
        owner: Owner | None = self.settings["owner"]
        if owner is not None and not self._may_enter(owner):
            raise HTTPError(403)

    def _may_enter(self, owner: Owner) -> bool:
        return owner.is_at(self)

    def log_exception(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        steps: TracebackType | None,
    ) -> None:
        """Log a failure of the server, without the visitor's address and query."""
        if isinstance(value, HTTPError) or kind is None or value is None:
            return  # an answer
        name = type(self).__name__
        logging.getLogger(__name__).error(
            "%s %s failed.", self.request.method, name, exc_info=(kind, value, steps)
        )

    def write_error(self, status_code: int, **_details: object) -> None:
        """Send the error in one line, without any part of the request."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {responses.get(status_code, '')}\n")

    def compute_etag(self) -> None:
        """Send no tag: nothing here is cached."""


class PageHandler(AppHandler):
    """GET /: the app, rendered by the kernel that becomes this visitor's."""

    def _may_enter(self, owner: Owner) -> bool:
        return owner.let_in(self) or owner.is_at(self)

    async def get(self) -> None:
        """Send a page, or the notice that there is no place.

        Raises:
            HTTPError: where a browser does not ask for a page to show.
        """
        self.set_header("Cache-Control", "no-store")
        if not is_for_a_page(
            self.request, may_be_framed=self.settings["may_be_framed"]
        ):
            raise HTTPError(403)
        visitors: Visitors = self.settings["visitors"]
        try:
            self._page = await self.kernel_manager.visit(visitors.name(self.request))
        except NetworkIsFull:
            self._refuse(429, CROWDED)
            return
        except AppIsFull:
            self._refuse(503, FULL)
            return
        if self.request.connection.stream.closed():
            self.kernel_manager.give_back(self._page)
            return
        self._send(self._page.html)

    def head(self) -> None:
        """Send the headers, without using a kernel."""
        self.set_header("Content-Type", "text/html; charset=utf-8")

    def write_error(self, status_code: int, **details: object) -> None:
        """Tell a person without the token how to come in."""
        if status_code == FORBIDDEN and self.settings["owner"] is not None:
            self._send(gzip.compress(notice_html(REFUSED).encode()))
        else:
            super().write_error(status_code, **details)

    def _refuse(self, status: int, notice: Notice) -> None:
        self.set_status(status)
        self.set_header("Retry-After", str(RETRY_SECONDS))
        self._send(gzip.compress(notice_html(notice).encode()))

    def _send(self, packed: bytes) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Vary", "Accept-Encoding")
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            self.finish(packed)
        else:
            self.finish(gzip.decompress(packed))


class GuessHandler(AppHandler):
    """GET /guess: the bar of the day to guess; it is made once a day, and no kernel."""

    async def get(self) -> None:
        """Send the page, whose own policy allows its own script."""
        loop = asyncio.get_running_loop()
        today = datetime.now(UTC).date()
        page = await loop.run_in_executor(None, _guess_page, today)
        allowed = pieces.script_source("guess.js")
        self.set_header("Content-Security-Policy", _GUESS_POLICY.format(allowed))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(page)


def _guess_page(day: date) -> str:
    """Return the day's page; who asks while it is drawn waits for it."""
    with _DRAWING:
        return _draw_guess(day)


@lru_cache(1)
def _draw_guess(day: date) -> str:
    from planner.learn.guessing import guess_the_bar  # noqa: PLC0415 - few need it

    game = guess_the_bar(day)
    return game.to_html()


class HealthHandler(AppHandler):
    """GET /healthz: for monitors, without data about visitors."""

    def _may_enter(self, _owner: Owner) -> bool:
        return True

    def get(self) -> None:
        """Send the number of open pages; 503 when no kernel can be started."""
        health = self.kernel_manager.health()
        self.set_status(503 if health["status"] == "failing" else 200)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(health))


class KernelHandler(AppHandler):
    """GET /api/kernels/ID: whether the page's own kernel is alive."""

    def get(self, kernel_id: str) -> None:
        """Send the state of a visitor's kernel; its id is the secret."""
        if not self.kernel_manager.is_open(kernel_id):
            raise HTTPError(404)
        self.set_header("Cache-Control", "no-store")
        self.finish(self.kernel_manager.kernel_model(kernel_id))


class ShutdownHandler(AppHandler):
    """POST /voila/api/shutdown/ID: sent by a page that is closed."""

    async def post(self, kernel_id: str) -> None:
        """End a visitor's kernel; ignore other ids."""
        await self.kernel_manager.end(kernel_id)
        self.set_status(204)
        self.finish()

    def check_xsrf_cookie(self) -> None:
        """Accept the page's beacon, which has no token.

        There is no login that another site could abuse; an id allows ending that
        kernel only.
        """


class MissingHandler(AppHandler):
    """All other addresses."""

    async def prepare(self) -> None:
        """Answer every method with 404."""
        raise HTTPError(404)


def _bundle(assets: Assets) -> bytes:
    """Join the chunks that the page's scripts would otherwise request one by one.

    webpack's chunks add themselves to a list; the loader looks there first and fetches
    the rest. So a chunk that another version of Voila lacks is left out, and one that
    is missing from the bundle is fetched by itself.
    """
    names = json.loads((_HERE / "bundled.json").read_text(encoding="utf-8"))
    parts = (assets.paths[name] for name in names if name in assets.paths)
    # A function for each chunk, since some begin with "use strict".
    joined = b"".join(b"(()=>{" + part.read_bytes() + b"\n})();\n" for part in parts)
    return _IMPATIENT.sub(rb"\g<1>%d" % _WIDGETS_MILLISECONDS, joined)


def _homes(extension: str) -> list[Path]:
    """Return the folders of an extension; Voila has an additional one."""
    shares = [*jupyter_path(), *jupyter_path("voila")]
    folders = (Path(share, "labextensions", extension) for share in shares)
    return [folder for folder in folders if folder.is_dir()]


def _theme() -> Path:
    """Find the theme's variables among nbconvert's templates.

    Raises:
        PlannerError: when the Jupyter of this environment has none.
    """
    for folder in jupyter_path("nbconvert", "templates", "lab", "static"):
        if (theme := Path(folder) / _THEME).is_file():
            return theme
    raise PlannerError(
        "The app needs nbconvert's templates. "
        "Run: pip install 'vllm-memory-planner[app]'"
    )
