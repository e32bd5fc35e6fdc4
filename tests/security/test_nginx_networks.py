"""Whom the limits of deploy/nginx.conf count: an IPv4 address, an IPv6 network."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from ipaddress import IPv6Address
from itertools import product
from pathlib import Path

import pytest

from tests.security.proxy import DEPLOY, nginx
from tests.ui.servers import free_port

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        nginx() is None,
        reason="no nginx on this machine: install it, or set NGINX to its path",
    ),
]

CONFIGURED = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
MAIN = """
daemon off;
{user}
pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    keepalive_requests 10000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    set_real_ip_from 127.0.0.1;
    real_ip_header X-From;
    {network}
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 $planner_network; }}
    }}
}}
"""
Counted = Callable[[str], bytes]


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Iterator[Counted]:
    """As whom nginx counts a client with this address."""
    folder: Path = tmp_path_factory.mktemp("networks")
    (network,) = re.findall(r"^map \$remote_addr .*?^}$", CONFIGURED, re.M | re.S)
    port = free_port()
    user = "user root;" if hasattr(os, "getuid") and os.getuid() == 0 else ""
    text = MAIN.format(folder=folder, network=network, port=port, user=user)
    (folder / "nginx.conf").write_text(text)
    words = [str(nginx()), "-p", folder, "-c", folder / "nginx.conf"]
    log = folder / "error.log"
    started = subprocess.Popen([*words, "-e", log], stderr=subprocess.DEVNULL)
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        for _ in range(200):
            if started.poll() is not None:
                raise RuntimeError(log.read_text())
            try:
                connection.connect()
                break
            except OSError:
                time.sleep(0.05)

        def ask(address: str) -> bytes:
            connection.request("GET", "/", headers={"X-From": address})
            return connection.getresponse().read()

        yield ask
    finally:
        connection.close()
        started.terminate()
        started.wait(15)


def network_of(address: str) -> bytes:
    """The first half of an IPv6 address."""
    return IPv6Address(address).packed[:8]


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.1", bytes((192, 0, 2, 1))),
        ("::ffff:192.0.2.1", b"192.0.2.1"),
        ("::1", b"::"),
        ("::", b"::"),
        ("2001:db8:1:2:3:4:5:6", b"2001:db8:1:2"),
        ("2001:db8:1:2::", b"2001:db8:1:2"),
        ("2001:db8:1:0:3:4:5:6", b"2001:db8:1"),
        ("2001:db8:1::6", b"2001:db8:1"),
        ("2001:db8::5", b"2001:db8"),
        ("2001:db8:0:0:5::", b"2001:db8"),
        ("2001:db8::5:6:7:8", b"2001:db8"),
        ("2001:0:0:4:5:6:7:8", b"2001:0:0:4"),
        ("2001:0:0:4::", b"2001:0:0:4"),
        ("fe80::1", b"fe80"),
        ("fe80::1:2:3:4", b"fe80"),
    ],
)
def test_an_address_is_counted_with_its_network(counted, address, key) -> None:
    """However short nginx writes it."""
    assert key == counted(address)


def test_a_network_is_counted_once_and_apart_from_others(counted) -> None:
    """Of all ways to write zeros: one key for each network, another for another."""
    keys: dict[bytes, set[bytes]] = {}
    for rest in product("01", repeat=7):
        address = ":".join(("2001", *rest))
        keys.setdefault(network_of(address), set()).add(counted(address))

    assert len(keys) == 2**3
    assert {len(found) for found in keys.values()} == {1}
    assert len(set.union(*keys.values())) == len(keys)


def test_what_begins_with_zeros_is_one_network(counted) -> None:
    """No visitor has such an address: none is counted finer than the others."""
    rest = product("01", repeat=7)

    assert {counted(":".join(("0", *groups))) for groups in rest} == {b"::"}


def test_every_limit_counts_networks() -> None:
    """Those of pages, requests and connections."""
    zones = re.findall(r"^limit_(?:req|conn)_zone (\S+)", CONFIGURED, re.M)

    assert zones == ["$planner_network"] * 3
