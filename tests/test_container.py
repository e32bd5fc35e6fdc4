"""The container: built and started where a builder is, else started in a clean root."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.ui.servers import PATIENCE_SECONDS, free_port

pytest.importorskip("voila")
pytestmark = pytest.mark.server

CONTAINER = ROOT / "deploy" / "Containerfile"
TEXT = CONTAINER.read_text(encoding="utf-8")
USER = 65532
MOST_ADDED_BYTES = 276_000_000
"""To the base, which has 124 MB: 400 MB in all."""
# A root with the system's programs and libraries and the Python of these tests, all of
# it read-only, and with the two places that the container may write to.
CLEAN_ROOT = r"""
set -eu
root=$1; shift
mount -t tmpfs -o mode=755 none "$root"
mkdir -p "$root/tmp"
# Before what is mounted: these tests may themselves lie below /tmp.
mount -t tmpfs -o size=256m,mode=1777 none "$root/tmp"
for path in /usr /bin /lib /lib64 /etc/ld.so.cache /etc/mime.types "$BASE" "$PREFIX"; do
    [ -e "$path" ] || continue
    if [ -L "$path" ]; then
        cp -P "$path" "$root$path"
    elif [ -d "$path" ]; then
        mkdir -p "$root$path"; mount --bind "$path" "$root$path"
        mount -o remount,ro,bind "$root$path"
    else
        mkdir -p "$root${path%/*}"; cp "$path" "$root$path"
    fi
done
mkdir -p "$root/source" "$root/dev/shm" "$root/proc"
cp -r "$SOURCE/planner" "$SOURCE/vllm_memory_planner.py" "$root/source/"
chmod -R a+rX "$root/source"
for name in null zero random urandom; do
    touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t tmpfs -o size=64m,mode=1777 none "$root/dev/shm"
mount -t proc none "$root/proc"
mount -o remount,ro "$root"
exec chroot --userspec="$USER_ID:$USER_ID" "$root" \
    /usr/bin/env -i PATH=/usr/bin:/bin PYTHONPATH=/source $VARIABLES "$@"
"""


def words_of(name: str) -> list[str]:
    """The words of an instruction that is a list."""
    found: list[str] = json.loads(re.findall(rf"^{name} (\[.*\])$", TEXT, re.M)[-1])
    return found


def words_of_the_check() -> str:
    """What HEALTHCHECK runs, as a line of a shell."""
    (listed,) = re.findall(r"HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", TEXT, re.M)
    return shlex.join(json.loads(listed))


def variables() -> dict[str, str]:
    """What ENV sets in the last stage."""
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", TEXT, re.M)
    found = dict(re.findall(r"(\w+)=(\S+)", block))
    found.pop("PATH")
    return found


def builder() -> str | None:
    """A program that builds images and works here."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and not subprocess.run(
                [name, "info"], capture_output=True, timeout=60
            ).returncode
        ):
            return name
    return None


def health(port: int, process: subprocess.Popen[bytes], log: Path) -> dict[str, object]:
    """Ask the app how it is, until it answers."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/healthz")
            told: dict[str, object] = json.loads(connection.getresponse().read())
        except OSError:
            time.sleep(0.3)
        else:
            if told["pool"]:
                return told
            time.sleep(0.3)
        finally:
            connection.close()
    raise AssertionError(log.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def image() -> Iterator[tuple[str, str]]:
    """The image, built; its base has to be on this machine: no test needs a network."""
    if "PLANNER_TEST_IMAGE" not in os.environ:
        pytest.skip("minutes, and packages from an index: make test-container")
    program = builder()
    if program is None:
        pytest.skip("no docker or podman that works here")
    (base, *_) = re.findall(r"^FROM (\S+) AS", TEXT, re.M)
    if subprocess.run(
        [program, "image", "inspect", base], capture_output=True
    ).returncode:
        pytest.skip(
            f"the base is not here: {program} pull {base}, or, where no registry is "
            f"reached, tools/container_base.sh {program} {base}"
        )
    tag = "planner-test"
    # Without a format of docker's, podman leaves the health check out.
    words = ["--format=docker"] if program == "podman" else []
    built = subprocess.run(
        [program, "build", "-q", *words, "-f", str(CONTAINER), "-t", tag, str(ROOT)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    yield program, tag
    subprocess.run([program, "image", "rm", tag], capture_output=True)


def test_the_image_starts_as_compose_starts_it(image, tmp_path) -> None:
    """Read-only, without rights, with two places to write to."""
    program, tag = image
    port, log, name = free_port(), tmp_path / "log", f"planner-{os.getpid()}"
    with log.open("wb") as written:
        running = subprocess.Popen(
            [
                *(program, "run", "--rm", "--init", "--read-only", "--cap-drop=ALL"),
                f"--name={name}",
                *("--security-opt=no-new-privileges", "--tmpfs=/tmp:size=256m"),
                *(f"--publish=127.0.0.1:{port}:8866", tag, "--pool", "1"),
            ],
            stdout=written,
            stderr=written,
        )

    def inside(script: str) -> str:
        words = [program, "exec", name, "sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True).stdout

    try:
        assert health(port, running, log)["status"] == "ok"
        assert inside("id -u").strip() == str(USER)
        rights = dict(re.findall(r"(\w+):\s+(\w+)", inside("cat /proc/1/status")))
        assert (int(rights["CapEff"], 16), rights["NoNewPrivs"]) == (0, "1")
        assert (
            inside(
                "for at in / /opt/planner /etc /tmp; do test -w $at && echo $at; done"
            )
            == "/tmp\n"
        )
        checked = inside(f"{words_of_the_check()} && echo well")
        assert checked == "well\n"
    finally:
        subprocess.run([program, "stop", "--time=10", name], capture_output=True)
        running.wait(30)


def test_the_image_is_small(image) -> None:
    """At most 400 MB, the base's 124 MB among them, whatever base is here."""
    program, tag = image
    (base, *_) = re.findall(r"^FROM (\S+) AS", TEXT, re.M)
    whole, below = (
        int(
            subprocess.run(
                [program, "image", "inspect", "--format={{.Size}}", name],
                capture_output=True,
                text=True,
            ).stdout
        )
        for name in (tag, base)
    )

    assert whole - below < MOST_ADDED_BYTES


@pytest.fixture
def clean_root(tmp_path: Path) -> Path:
    """A folder that becomes a root, where this user may make one."""
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a clean root needs Linux, unshare and the administrator's rights")
    may = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
    if may.returncode:
        pytest.skip("this machine lets nobody mount")
    return tmp_path


def test_what_the_container_starts_works_in_a_clean_root(clean_root) -> None:
    """Its command and its variables, as its user: nothing else can be written to."""
    (copied,) = re.findall(r"^COPY planner (\S+)$", TEXT, re.M)
    entry = words_of("ENTRYPOINT")
    port, log = free_port(), clean_root / "log"
    place = clean_root / "root"
    place.mkdir()
    asked = ["127.0.0.1" if word == "0.0.0.0" else word for word in entry[1:]]
    asked[asked.index("--port") + 1] = str(port)
    prefix = Path(sys.prefix).resolve()  # it may be a link
    python = str(prefix / "bin" / "python")
    with log.open("wb") as written:
        running = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", CLEAN_ROOT, "sh", str(place), python, "-m", "planner"),
                *(*asked, "--pool", "1"),
            ],
            env={
                "PATH": os.environ["PATH"],
                "BASE": sys.base_prefix,
                "PREFIX": str(prefix),
                "SOURCE": str(ROOT),
                "USER_ID": str(USER),
                "VARIABLES": " ".join(f"{k}={v}" for k, v in variables().items()),
            },
            stdout=written,
            stderr=written,
        )
    try:
        told = health(port, running, log)
        users = {
            path.stat().st_uid
            for path in Path("/proc").glob("[0-9]*")
            if str(port).encode() in _arguments(path) and b"planner" in _arguments(path)
        }
    finally:
        # The first process of a namespace: all others in it end with it.
        listed = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        for first in listed.read_text().split() if listed.exists() else ():
            os.kill(int(first), signal.SIGKILL)
        running.wait(30)

    assert copied == "planner"
    assert f"USER {USER}:{USER}" in TEXT
    assert told["status"] == "ok"
    assert USER in users
    assert "Traceback" not in log.read_text(encoding="utf-8")


def _arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
