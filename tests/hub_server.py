"""A small server that speaks as much of the Hub's interface as the planner uses.

It serves repositories from memory on 127.0.0.1, and keeps a record of what was asked
and how many bytes went out, so that tests can tell a header from a file of weights.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

with suppress(ImportError):
    # It keeps HF_HUB_OFFLINE as it is at the import, which is no matter for a test.
    import huggingface_hub.constants  # noqa: F401

VALID_TOKEN = "hf_valid"


def close_session() -> None:
    """Drop the library's open connections, which know an older address of the Hub."""
    from huggingface_hub import utils

    (getattr(utils, "close_session", None) or utils.reset_sessions)()


def safetensors_file(tensors: Mapping[str, tuple[str, list[int]]], size: int) -> bytes:
    """A file with a true header and `size` bytes of (empty) weights."""
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}
        for name, (dtype, shape) in tensors.items()
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


@dataclass
class Repo:
    """One repository; `commit` names its only revision besides main."""

    files: dict[str, bytes]
    commit: str = "a" * 40
    is_gated: bool = False
    is_granted: bool = True
    """Whether the account of the valid token was given access, where it is gated."""
    is_private: bool = False
    parameters: dict[str, int] | None = None
    downloads: int = 0
    tags: tuple[str, ...] = ()
    library: str = "transformers"


@dataclass
class Asked:
    """One request and the size of its answer."""

    method: str
    path: str
    num_bytes: int = 0
    began: float = 0
    ended: float = 0


@dataclass
class Hub:
    """The server's state: tests change it while it runs."""

    repos: dict[str, Repo] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    delay_seconds: float = 0
    status: int = 200
    has_header_route: bool = True
    url: str = ""
    says: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """Answers of a Hub that misbehaves, by the end of the path."""
    refused_after: int | None = None
    """Requests that are answered; those after them are too many (429)."""
    redirects: bool = False
    """Whether files come from another path, as large ones do."""
    tokens: list[str | None] = field(default_factory=list)
    """The Authorization header of each request."""

    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [asked.path for asked in self.asked]

    def queries(self) -> list[dict[str, list[str]]]:
        """What was asked of the list of models, in order."""
        addresses = map(urlsplit, self.paths())
        return [parse_qs(at.query) for at in addresses if at.path == "/api/models"]

    def rounds(self) -> int:
        """How many requests one after the other the slowest chain of them took."""
        chain: list[int] = []
        for asked in self.asked:
            before = [
                length
                for length, other in zip(chain, self.asked, strict=False)
                if other.ended and other.ended <= asked.began
            ]
            chain.append(1 + max(before, default=0))
        return max(chain, default=0)

    def bytes_served(self) -> int:
        """Bytes of all answers, without their headers."""
        return sum(asked.num_bytes for asked in self.asked)


class _RefusalError(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        said = {"X-Error-Code": code, "X-Error-Message": message}
        self.status = status
        self.headers = {name: text for name, text in said.items() if text}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, *, has_body: bool) -> None:
        self.asked = Asked(self.command, self.path, began=time.monotonic())
        self.hub.asked.append(self.asked)
        number = len(self.hub.asked)
        self.hub.tokens.append(self.headers.get("Authorization"))
        time.sleep(self.hub.delay_seconds)
        for end, (status, headers, body) in self.hub.says.items():
            if urlsplit(self.path).path.endswith(end):
                self._send(status, body, headers, has_body)
                return
        if self.hub.refused_after is not None and number > self.hub.refused_after:
            self._send(429, b"", {}, has_body)
            return
        if self.hub.status != 200:
            self._send(self.hub.status, b"", {}, has_body)
            return
        try:
            status, body, headers = self._route()
        except _RefusalError as refusal:
            status, body, headers = refusal.status, b"{}", refusal.headers
        self._send(status, body, headers, has_body)

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], has_body: bool
    ) -> None:
        self.asked.ended = time.monotonic()
        try:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if has_body:
                self.wfile.write(body)
                self.asked.num_bytes = len(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up waiting

    def _route(self) -> tuple[int, bytes, dict[str, str]]:
        address = urlsplit(self.path)
        parts = unquote(address.path).strip("/").split("/")
        if parts == ["api", "models"]:
            return self._search(parse_qs(address.query))
        if parts[:2] == ["api", "models"]:
            return self._model(parts[2:])
        if "resolve" not in parts:
            raise _RefusalError(404)
        middle = parts.index("resolve")
        start = 1 if parts[0] == "elsewhere" else 0
        name, revision = "/".join(parts[start:middle]), parts[middle + 1]
        answer = self._file(name, revision, "/".join(parts[middle + 2 :]))
        if self.hub.redirects and parts[0] != "elsewhere":
            where = {"Location": f"{self.hub.url}/elsewhere{self.path}"}
            headers = answer[2] | {"X-Linked-Etag": answer[2]["ETag"]}
            return 302, b"", headers | where
        return answer

    def _search(self, query: dict[str, list[str]]) -> tuple[int, bytes, dict[str, str]]:
        """List models as the Hub does: those with the text and all tags, sorted."""
        text, wanted = query.get("search", [""])[0].lower(), query.get("filter", [])
        found = [
            (name, repo)
            for name, repo in self.hub.repos.items()
            if text in name.lower()
            and set(wanted) <= _tags(repo)
            and query.get("gated") in (None, [str(repo.is_gated).lower()])
            and (self._token() or not repo.is_private)
        ]
        if query.get("sort") == ["downloads"]:
            found.sort(key=lambda one: -one[1].downloads)
        rows = [_row(*one) for one in found[: int(query["limit"][0])]]
        if expanded := query.get("expand"):
            rows = [{key: row[key] for key in ("id", *expanded)} for row in rows]
        return 200, json.dumps(rows).encode(), {}

    def _model(self, parts: list[str]) -> tuple[int, bytes, dict[str, str]]:
        if "safetensors-metadata" in parts:
            return self._headers("/".join(parts[: parts.index("safetensors-metadata")]))
        if "tree" in parts:
            return self._tree("/".join(parts[: parts.index("tree")]))
        revision = "main"
        if "revision" in parts:
            parts, revision = parts[: parts.index("revision")], parts[-1]
        name = "/".join(parts)
        repo = self._repo(name, revision)
        info: dict[str, object] = {
            "id": name,
            "sha": repo.commit,
            "gated": "manual" if repo.is_gated else False,
            "private": repo.is_private,
            "siblings": [
                {"rfilename": file, "size": len(content)}
                if "blobs=" in self.path
                else {"rfilename": file}
                for file, content in repo.files.items()
            ],
            "tags": list(repo.tags),
        }
        if repo.parameters is not None:
            total = sum(repo.parameters.values())
            info["safetensors"] = {"parameters": repo.parameters, "total": total}
        return 200, json.dumps(info).encode(), {}

    def _tree(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        """List the files, as a file system over the Hub asks for them."""
        files = self._repo(name, "main").files
        listed = [
            {
                "type": "file",
                "path": file,
                "size": len(content),
                "oid": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
            }
            for file, content in files.items()
        ]
        return 200, json.dumps(listed).encode(), {}

    def _headers(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        if not self.hub.has_header_route:
            raise _RefusalError(404)
        repo = self._repo(name, "main")
        self._refuse_gated(repo)
        shards = {
            file: json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
            for file, content in repo.files.items()
            if file.endswith(".safetensors")
        }
        answer = {"index": {"metadata": {}}, "headers": shards}
        return 200, json.dumps(answer).encode(), {}

    def _file(
        self, name: str, revision: str, file: str
    ) -> tuple[int, bytes, dict[str, str]]:
        repo = self._repo(name, revision)
        self._refuse_gated(repo)
        if file not in repo.files:
            raise _RefusalError(404, "EntryNotFound")
        content = repo.files[file]
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": repo.commit,
            "X-Linked-Size": str(len(content)),
            "Accept-Ranges": "bytes",
        }
        asked_range = self.headers.get("Range")
        if asked_range is None:
            return 200, content, headers
        first, last = asked_range.removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        end = int(first) + len(part) - 1
        headers["Content-Range"] = f"bytes {first}-{end}/{len(content)}"
        return 206, part, headers

    def _repo(self, name: str, revision: str) -> Repo:
        token = self._token()
        if token is not None and token != VALID_TOKEN:
            raise _RefusalError(
                401, message="Invalid credentials in Authorization header"
            )
        repo = self.hub.repos.get(name)
        if repo is None or (repo.is_private and token is None):
            # The Hub does not tell a stranger which of the two it is.
            raise _RefusalError(404 if token else 401, "RepoNotFound")
        if revision not in ("main", repo.commit):
            raise _RefusalError(404, "RevisionNotFound")
        return repo

    def _refuse_gated(self, repo: Repo) -> None:
        if repo.is_gated and self._token() is None:
            raise _RefusalError(401, "GatedRepo")
        if repo.is_gated and not repo.is_granted:
            raise _RefusalError(403, "GatedRepo")

    def _token(self) -> str | None:
        header = self.headers.get("Authorization")
        return header.removeprefix("Bearer ") if header else None


def _row(name: str, repo: Repo) -> dict[str, object]:
    """What a list says of a model."""
    counts = repo.parameters
    return {
        "id": name,
        "downloads": repo.downloads,
        "gated": "manual" if repo.is_gated else False,
        "library_name": repo.library,
        "private": repo.is_private,
        "safetensors": counts and {"parameters": counts, "total": sum(counts.values())},
        "tags": sorted(_tags(repo)),
    }


def _tags(repo: Repo) -> set[str]:
    """A model's tags; the Hub adds the format of its files."""
    return {*repo.tags, *(() if "gguf" in repo.tags else ("safetensors",))}


class HubServer:
    """Runs the server in a thread, for the length of a `with` block."""

    def __init__(self) -> None:
        self.hub = Hub()
        handler = type("Handler", (_Handler,), {"hub": self.hub})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.hub.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Hub:
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self.hub

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
