"""The page's scripts and styles, compressed once and cached by browsers.

Each file's address contains a hash of all of them, so that a browser never requests a
file twice. Only the files that were found when the server started are served.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass, field
from pathlib import Path

from tornado.web import HTTPError, RequestHandler

from planner.values import frozen

PREFIX = "assets"
_COMPRESSIBLE = {".css", ".js", ".json", ".map", ".mjs", ".svg", ".ttf", ".txt", ".eot"}
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".map": "text/plain"}
_COMPRESSION = 6
_HASH_LENGTH = 16
_A_YEAR_SECONDS = 365 * 24 * 3600


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
        if name not in self._sent:
            self._sent[name] = self._pack(name)
        return self._sent[name]

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

    def head(self, version: str, name: str) -> None:
        """Send the headers only."""
        self.get(version, name)

    def get(self, version: str, name: str) -> None:
        """Send a file, or 304 where the browser has it."""
        if version != self._assets.version:
            raise HTTPError(404)
        try:
            asset = self._assets.get(name)
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
        self.write(self._encoded(asset))

    def _encoded(self, asset: Asset) -> bytes:
        if not asset.is_compressed:
            return asset.body
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            return asset.body
        return gzip.decompress(asset.body)

    def compute_etag(self) -> None:
        """Compute no tag: `get` sets one."""
