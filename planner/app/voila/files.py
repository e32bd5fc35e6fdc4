"""The page's scripts and styles, compressed once and cached by browsers.

Each file's address contains a hash of all of them, so that a browser never requests a
file twice. Only the files that were found when the server started are served.

They are sent in pieces: for a client that does not read, one waits in the server and
one in the system.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from planner.values import frozen

PREFIX = "assets"
_COMPRESSIBLE = {".css", ".js", ".json", ".map", ".mjs", ".svg", ".ttf", ".txt", ".eot"}
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".map": "text/plain"}
_COMPRESSION = 6
_HASH_LENGTH = 16
_A_YEAR_SECONDS = 365 * 24 * 3600
_PIECE_BYTES = 64 * 1024


@frozen
class Asset:
    """A file, ready to send."""

    body: bytes
    content_type: str
    is_compressed: bool


@dataclass(slots=True, kw_only=True)
class Assets:
    """The served files, by their name in the addresses."""

    paths: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    """Files that are generated here."""
    _sent: dict[str, Asset] = field(default_factory=dict)
    _unpacked: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Requests that come together wait for the one that packs or unpacks."""
    _version: str = ""

    def add_folder(self, name: str, folder: Path) -> None:
        """Serve every file below `folder`, unless its name is taken."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                relative = path.relative_to(folder).as_posix()
                self.paths.setdefault(f"{name}/{relative}", path)

    @property
    def version(self) -> str:
        """A hash of every file's name and content."""
        if not self._version:
            digest = hashlib.sha256()
            for name in sorted({*self.paths, *self.texts}):
                digest.update(name.encode())
                digest.update(hashlib.sha256(self._read(name)).digest())
            self._version = digest.hexdigest()[:_HASH_LENGTH]
        return self._version

    def get(self, name: str) -> Asset:
        """Return a file ready to send, compressed where that helps.

        Raises:
            KeyError: when there is no file with that name.
        """
        with self._lock:
            if name not in self._sent:
                self._sent[name] = self._pack(name)
            return self._sent[name]

    def unpacked(self, name: str) -> bytes:
        """Return a file for a client that cannot unpack it: unpacked once, and kept.

        Raises:
            KeyError: when there is no file with that name.
        """
        asset = self.get(name)
        if not asset.is_compressed:
            return asset.body
        if name in self.texts:
            return self.texts[name]
        with self._lock:
            if name not in self._unpacked:
                self._unpacked[name] = gzip.decompress(asset.body)
            return self._unpacked[name]

    def _read(self, name: str) -> bytes:
        return self.texts[name] if name in self.texts else self.paths[name].read_bytes()

    def _pack(self, name: str) -> Asset:
        suffix = Path(name).suffix
        guessed = mimetypes.guess_type(name)[0] or "application/octet-stream"
        body = self._read(name)
        is_compressed = suffix in _COMPRESSIBLE
        return Asset(
            body=gzip.compress(body, _COMPRESSION) if is_compressed else body,
            content_type=_TYPES.get(suffix, guessed),
            is_compressed=is_compressed,
        )

    def warm(self) -> None:
        """Compress every script and style sheet before the first request."""
        for name in (*self.paths, *self.texts):
            if Path(name).suffix in {".js", ".css"}:
                self.get(name)


class AssetHandler(RequestHandler):
    """Sends a file by its name in a table, so that no path can leave a folder."""

    def initialize(self, assets: Assets) -> None:
        """Store the served files."""
        self._assets = assets

    def set_default_headers(self) -> None:
        """Set the headers of every response of the app."""
        for name, value in self.settings.get("headers", {}).items():
            self.set_header(name, value)

    async def head(self, version: str, name: str) -> None:
        """Send the headers only."""
        await self.get(version, name)

    async def get(self, version: str, name: str) -> None:
        """Send a file, or 304 where the browser has it."""
        if version != self._assets.version:
            raise HTTPError(404)
        try:
            asset = await asyncio.to_thread(self._assets.get, name)
        except KeyError:
            raise HTTPError(404) from None
        self.set_header(
            "Cache-Control", f"public, max-age={_A_YEAR_SECONDS}, immutable"
        )
        self.set_header("ETag", f'"{version}"')
        self.set_header("Vary", "Accept-Encoding")
        if self.check_etag_header():
            self.set_status(304)
            return
        self.set_header("Content-Type", asset.content_type)
        await self._send(await self._encoded(name, asset))

    async def _encoded(self, name: str, asset: Asset) -> bytes:
        if not asset.is_compressed:
            return asset.body
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            return asset.body
        return await asyncio.to_thread(self._assets.unpacked, name)

    async def _send(self, body: bytes) -> None:
        """Write a piece once the client has taken the one before."""
        self.set_header("Content-Length", len(body))
        if self.request.method == "HEAD":
            return
        connection: Any = self.request.connection
        if connection.stream.closed():
            return
        _take_little(connection.stream.socket)
        for start in range(0, len(body), _PIECE_BYTES):
            self.write(body[start : start + _PIECE_BYTES])
            try:
                await self.flush()
            except StreamClosedError:
                return

    def compute_etag(self) -> None:
        """Compute no tag: `get` sets one."""


def _take_little(client: socket.socket) -> None:
    """Let the system hold one piece that is not sent yet, and not megabytes.

    What is on its way to the client does not count, so none waits for it. Source: Linux
    `ip-sysctl`, tcp_notsent_lowat.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and client.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # the client went just now
            client.setsockopt(socket.IPPROTO_TCP, option, _PIECE_BYTES)
