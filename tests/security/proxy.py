"""Starts nginx with deploy/nginx.conf, on loopback and with files of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.ui.servers import PATIENCE_SECONDS, ROOT, free_port

DEPLOY = ROOT / "deploy"

_MAIN = """
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/start.log;
events {{ worker_connections 512; }}
http {{
    types {{ text/html html; }}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/planner.conf;
}}
"""


@dataclass
class Proxy:
    """A running nginx."""

    address: str
    plain: str
    """The address without TLS."""
    folder: Path

    def written(self) -> str:
        """What it wrote down of requests and errors."""
        logs = sorted(self.folder.glob("planner*.log"))
        return "".join(log.read_text(encoding="utf-8") for log in logs)


def nginx() -> str | None:
    """Find nginx, or the one that `make test` names."""
    named = os.environ.get("NGINX")
    return named or shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def rendered(folder: Path, upstream: str, ports: tuple[int, int]) -> str:
    """The configuration with this machine's ports and paths in it."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    changes = {
        "listen 80;": f"listen 127.0.0.1:{ports[0]};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{ports[1]} ssl http2;",
        "listen [::]:80;": "",
        "listen [::]:443 ssl http2;": "",
        "server 127.0.0.1:8866;": f"server {urlsplit(upstream).netloc};",
        "/etc/letsencrypt/live/planner.example.org": str(folder),
        "/var/log/nginx": str(folder),
        "/usr/share/planner/pages": str(DEPLOY / "pages"),
        "/var/www/acme": str(folder),
    }
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def proxied(folder: Path, upstream: str) -> Iterator[Proxy]:
    """Serve what `upstream` serves, through nginx, until the block ends."""
    program = nginx()
    assert program is not None
    ports = (free_port(), free_port())
    _make_certificate(folder)
    user = "user root;" if hasattr(os, "getuid") and os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user))
    (folder / "planner.conf").write_text(rendered(folder, upstream, ports))
    words = [program, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    started = subprocess.Popen(
        [*words, "-e", str(folder / "start.log")], stderr=subprocess.DEVNULL
    )
    try:
        _wait(started, ports, folder)
        yield Proxy(
            f"https://127.0.0.1:{ports[1]}/", f"http://127.0.0.1:{ports[0]}/", folder
        )
    finally:
        started.terminate()
        started.wait(15)


def _wait(
    started: subprocess.Popen[bytes], ports: tuple[int, int], folder: Path
) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if started.poll() is not None:
            raise RuntimeError((folder / "start.log").read_text())
        try:
            with socket.create_connection(
                ("127.0.0.1", ports[1]), timeout=PATIENCE_SECONDS
            ):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("nginx did not answer in time")


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            "openssl",
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-keyout", str(folder / "privkey.pem")),
            *("-out", str(folder / "fullchain.pem")),
        ],
        check=True,
        capture_output=True,
    )
