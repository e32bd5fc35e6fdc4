"""The app's server: Voila's rendering of a notebook, with request handlers of its own.

Voila provides the page's scripts and turns the notebook into HTML. Its own handlers
serve any notebook to trusted users; this server answers only what the app needs.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import tornado.web
from jupyter_events import EventLogger
from jupyter_server.auth.identity import IdentityProvider, User
from jupyter_server.utils import url_path_join
from traitlets import Instance
from traitlets.config import Config
from voila.app import Voila
from voila.utils import get_page_config

from planner.app.voila import (
    api,
    files,
    kernels,
    log,
    openapi,
    pages,
    provisioner,
    room,
    room_pages,
    short_lived,
    sockets,
)
from planner.app.voila.access import TOKEN, Owner, Visitors, trusted_networks
from planner.app.voila.connections import BoundedServer
from planner.app.voila.files import AssetHandler
from planner.app.voila.kernels import OneKernelSpec
from planner.app.voila.options import Options, is_loopback
from planner.app.voila.sessions import Sessions
from planner.errors import PlannerError
from planner.show.html import tag
from planner.surroundings import PUBLISHED, SHARE_AT, is_published

_KERNEL_ID = r"(?P<kernel_id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_POLICY = (
    "default-src 'none'",
    # A widget's script arrives over the kernel's socket; the page loads it as a blob.
    "script-src 'self' blob:",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Server": "planner",
}
_IDLE_SECONDS = 3600


class Anybody(IdentityProvider):
    """Lets everybody use the app, without a cookie."""

    auth_enabled = False

    def get_user(self, _handler: object) -> User:
        """Return the same user for every request."""
        return User(username="visitor")


class App(Voila):
    """Voila, restricted to the planner's page."""

    event_logger = Instance(EventLogger, args=())
    """One for all kernels: each would name a logger of its own, kept for good."""

    def serve(self, options: Options) -> None:
        """Serve until a signal ends it.

        Raises:
            PlannerError: when the port is in use, or a proxy's address is none.
        """
        self.options = options
        base = url_path_join("/", options.base_url, "/")
        self.visitors = Visitors(trusted=trusted_networks(options.trusted_proxies))
        self.desk = api.Desk(is_limited=options.published)
        self.room = room.room_of(options) if options.room else None
        self.owner = None if options.published else Owner(port=options.port, path=base)
        if provisioner.is_available():
            provisioner.ForkServer.instance()  # imports while Voila starts
        self._folder = short_lived.made()
        os.environ["IPYTHONDIR"] = str(self._folder / "ipython")
        self.update_config(_config(options, self._folder))
        self.initialize([str(options.notebook)])
        self.log.handlers.clear()  # the root logger's handler writes for all
        self.log.propagate = True
        self.log.setLevel(logging.WARNING)
        self.start()

    def init_settings(self) -> dict[str, Any]:
        """Return tornado's settings, and gather what pages need."""
        settings: dict[str, Any] = super().init_settings()
        self.contents_manager.notary.sign(
            nbformat.read(self.notebook_path, as_version=4)
        )
        self.assets = pages.gather(self.static_paths)
        self.page_config = self._page_config(settings)
        return settings | {
            "allow_remote_access": self.options.published,
            "default_handler_class": pages.MissingHandler,
            "headers": _headers(self.options),
            "owner": self.owner,
            "visitors": self.visitors,
            "may_be_framed": bool(self.options.frame_ancestors),
            "log_function": log.log_request,
            "websocket_max_message_size": sockets.MESSAGE_BYTES,
            "websocket_compression_options": {"compression_level": 1, "mem_level": 5},
            # tornado takes Jupyter's milliseconds for seconds: sockets.py pings itself.
            "ws_ping_interval": 0,
        }

    def init_handlers(self) -> list[Any]:
        """Return the handlers; all other addresses are not found."""
        kernel = rf"api/kernels/{_KERNEL_ID}"
        rate = api.Rate(per_minute=api.PER_MINUTE, at_once=api.AT_ONCE)
        is_counted = self.options.published
        shared = {"desk": self.desk, "rate": rate if is_counted else None}
        addresses: dict[str, tuple[Any, ...]] = {
            "": (pages.PageHandler,),
            "guess": (pages.GuessHandler,),
            "healthz": (pages.HealthHandler,),
            "api": (api.DescriptionHandler,),
            f"api/({openapi.DOCUMENT})": (api.DescriptionHandler,),
            "api/plan": (api.PlanHandler, shared),
            kernel: (pages.KernelHandler,),
            f"{kernel}/channels": (sockets.KernelSocket,),
            rf"voila/api/shutdown/{_KERNEL_ID}": (pages.ShutdownHandler,),
            rf"{files.PREFIX}/(\w+)/(.+)": (AssetHandler, {"assets": self.assets}),
            **(room_pages.handlers(self.room) if self.room else {}),
        }
        return [
            (url_path_join(self.server_url, address), *handler)
            for address, handler in addresses.items()
        ]

    def listen(self) -> None:
        """Bind the port and run.

        Raises:
            PlannerError: when the port is in use or not allowed.
        """
        kernels.keep_little()
        server = BoundedServer(self.app)
        try:
            server.listen(self.port, self.ip)
        except OSError as error:
            raise PlannerError(_why_not(self.options, error)) from error
        tornado.ioloop.IOLoop.current().add_callback(self.kernel_manager.begin)
        pinging = 1000 * sockets.PING_SECONDS
        tornado.ioloop.PeriodicCallback(sockets.KernelSocket.ping_all, pinging).start()
        threading.Thread(target=self.assets.warm, daemon=True).start()
        start = _start_address(self.options, self.owner)
        kept = _kept_address(start, self.owner, self._folder)
        sys.stderr.write(_greeting(start, self.options, kept))
        if self.room:
            sys.stderr.write(_room_greeting(self.room, self._folder))
        if self.options.opens_browser:
            _open_in_browser(start, self._folder)
        self.ioloop = tornado.ioloop.IOLoop.current()
        try:
            self.ioloop.start()
        except KeyboardInterrupt:
            sys.stderr.write("\n")

    def start(self) -> None:
        """Start as Voila does, and always end the kernels."""
        try:
            super().start()
        finally:
            self.stop()

    def stop(self) -> None:
        """End every kernel, and remove all files."""
        # Requests that wait for a kernel fail now; their errors need no log.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        provisioner.ForkServer.end()
        self.desk.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def disconnect(self, kernel_id: str) -> None:
        """Close the connections to a kernel that ended."""
        sockets.KernelSocket.disconnect_all(kernel_id)

    def _page_config(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration of the page's scripts, with addresses of files."""
        found: dict[str, Any] = get_page_config(
            base_url=self.base_url,
            settings=settings,
            log=self.log,
            voila_configuration=self.voila_configuration,
        )
        root = url_path_join(self.base_url, files.PREFIX, self.assets.version)
        return found | {
            # The version of Voila, which the page does not need.
            "appVersion": "",
            "fullStaticUrl": f"{root}/voila",
            "fullLabextensionsUrl": f"{root}/labextensions",
            "plannerFilesUrl": f"{root}/page",
            # Ignore what the machine's own JupyterLab disables.
            "disabledExtensions": [],
        }


def _config(options: Options, folder: Path) -> Config:
    """Return the settings of Voila and its parts."""
    config = Config()
    config.Voila = Config(
        ip=options.address,
        port=options.port,
        base_url=url_path_join("/", options.base_url, "/"),
        open_browser=False,
        config_file_paths=[],
        connection_dir_root=str(folder),
        identity_provider_class=Anybody,
        kernel_websocket_connection_class=sockets.KernelConnection,
        log_level="WARN",
    )
    config.VoilaConfiguration = Config(
        template=pages.TEMPLATE,
        allow_template_override="NO",
        allow_theme_override="NO",
        strip_sources=True,
        show_tracebacks=False,
        preheat_kernel=False,  # Sessions has its own pool
        extension_allowlist=list(pages.EXTENSIONS),
        file_allowlist=[],
        multi_kernel_manager_class=Sessions,
        kernel_spec_manager_class=OneKernelSpec,
    )
    config.VoilaExecutor = Config(timeout=60)
    config.NotebookNotary = Config(db_file=":memory:", secret=b"none")
    config.Sessions = Config(
        pool_size=options.pool,
        max_sessions=options.max_sessions,
        per_network=options.per_network,
        kernel_folder=str(folder if options.published else Path.cwd()),
        ends_at_once=options.published,
        # A busy machine may take its owner's browser long to load a page.
        arrive_seconds=30 if options.published else 120,
        lost_seconds=60 if options.published else 600,
        # An unused page gives its place to others; on one's own machine it stays.
        idle_seconds=_IDLE_SECONDS if options.published else 0,
    )
    # Sockets in a folder of this user, which no other user of the machine can open.
    transport = "tcp" if sys.platform == "win32" else "ipc"
    config.KernelManager = Config(autorestart=False, transport=transport)
    return config


def _headers(options: Options) -> dict[str, str]:
    """Return the headers of every response; old browsers need one of their own."""
    ancestors = " ".join(("'self'", *options.frame_ancestors))
    policy = "; ".join((*_POLICY, f"frame-ancestors {ancestors}"))
    # The old header knows no other origins; browsers that know the policy ignore it.
    frame = {} if options.frame_ancestors else {"X-Frame-Options": "SAMEORIGIN"}
    return _HEADERS | {"Content-Security-Policy": policy} | frame


def _start_address(options: Options, owner: Owner | None) -> str:
    host = f"[{options.address}]" if ":" in options.address else options.address
    path = url_path_join("/", options.base_url, "/")
    token = "" if owner is None else f"?{TOKEN}={owner.token}"
    return f"http://{host}:{options.port}{path}{token}"


def _kept_address(start: str, owner: Owner | None, folder: Path) -> Path | None:
    """Write a start address with a token where a log would show it to others.

    None where the program's output is a terminal, or where there is no token.
    """
    if owner is None or sys.stderr.isatty():
        return None
    return _written_for_owner(folder / "address", f"{start}\n")


def _written_for_owner(path: Path, text: str) -> Path:
    """Write a file that no other user of the machine can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _greeting(start: str, options: Options, kept: Path | None) -> str:
    if kept is not None:
        bare = start.partition("?")[0]
        return (
            f"The planner: {bare}  (Ctrl+C ends it) Only the address with your token "
            f"opens it. This is no terminal, so it is in a file that only you can "
            f"read: {kept}\n"
        )
    mode = (
        " Published: nothing runs or is read here for visitors."
        if options.published
        else " Only this address opens it: keep it to yourself."
    )
    return f"The planner: {start}  (Ctrl+C ends it){mode}\n"


def _room_greeting(found: room.Room, folder: Path) -> str:
    """Say where phones go, and whoever leads the room: to a terminal only."""
    screen = found.screen_address
    if not sys.stderr.isatty():
        kept = _written_for_owner(folder / "screen", f"{screen}\n")
        screen = f"in a file that only you can read: {kept}"
    return f"The room, for phones: {found.address}\nIts screen, for you: {screen}\n"


def _open_in_browser(start: str, folder: Path) -> threading.Thread:
    """Open the page in the machine's browser, by a file that only its user can read.

    Every user of a machine can read the arguments of its processes.
    """
    forward = tag("meta", http_equiv="refresh", content=f"0; url={start}")
    text = f"{tag('meta', charset='utf-8')}{forward}"
    page = _written_for_owner(folder / "open.html", text)
    opening = threading.Thread(
        target=webbrowser.open, args=(page.as_uri(),), daemon=True
    )
    opening.start()
    return opening


def _why_not(options: Options, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {options.port} is in use. Choose another with --port, or end the "
            "program that has it."
        )
    return f"{options.address} port {options.port} cannot be used: {error.strerror}."


def serve(options: Options) -> None:
    """Serve the app until it is ended.

    Raises:
        PlannerError: when the port is in use.
    """
    if options.published or is_published() or not is_loopback(options.address):
        os.environ[PUBLISHED] = "1"
        options = replace(options, published=True)
    if options.share_at:
        os.environ[SHARE_AT] = options.share_at
    paths = (str(pages.SHARE), *filter(None, [os.environ.get("JUPYTER_PATH")]))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
    provisioner.register()
    root = logging.getLogger()
    root.addHandler(log.handler(sys.stderr, published=options.published))
    App().serve(options)
