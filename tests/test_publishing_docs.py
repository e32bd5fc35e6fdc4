"""What docs/publishing.md names is there, and says what the files and programs say."""

from __future__ import annotations

import json
import re

import pytest

from planner.app.cli import main
from planner.models.sources import allowance, hub_bounds, hub_published, hub_store
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "publishing.md").read_text(encoding="utf-8")
NGINX = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
UNIT = (ROOT / "deploy" / "planner.service").read_text(encoding="utf-8")


def test_every_file_that_is_named_is_there() -> None:
    """In links and in commands."""
    linked = re.findall(r"\]\((?!https:|#)([^)#]+)\)", PAGE)
    named = re.findall(r"(?<![\w/])(?:deploy|notebooks)/[\w./-]+\w", PAGE)

    assert len(linked) >= 6
    assert len(named) >= 6
    for name in linked:
        assert (ROOT / "docs" / name).exists(), name
    for name in named:
        assert (ROOT / name).exists(), name


def test_every_heading_that_is_linked_is_there() -> None:
    """As GitHub makes names of headings."""
    headings = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGE, re.M)
    }
    linked = set(re.findall(r"\]\(#([^)]+)\)", PAGE))

    assert len(linked) >= 5
    assert linked <= headings


def test_every_flag_is_one_of_the_app(capsys) -> None:
    """Of `planner app`."""
    used = {
        flag
        for line in re.findall(r"planner app.*$", PAGE, re.M)
        for flag in re.findall(r"--[a-z-]+", line)
    } | {"--max-sessions", "--pool"}
    with pytest.raises(SystemExit):
        main(["app", "--help"])
    told = capsys.readouterr().out

    assert len(used) >= 4
    assert {flag for flag in used if flag not in told} == set()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (allowance.PER_MINUTE, allowance._PER_MINUTE),
        (hub_store.CACHE_MIB, hub_store._CACHE_MIB),
    ],
)
def test_a_variable_has_the_value_that_the_page_says(variable, value) -> None:
    """Of those that hold a number."""
    assert f"| `{variable}` | {value} |" in PAGE


def test_the_sizes_are_those_of_the_program() -> None:
    """Of one file, one answer, one look-up."""
    mib = 1 << 20
    text = (
        f"Files larger than {hub_published._CONFIG_BYTES // mib} MiB, answers "
        f"larger than {hub_bounds.ANSWER_BYTES // mib} MiB, and look-ups of more than "
        f"{hub_bounds.LOOK_UP_BYTES // mib} MiB or {hub_bounds.LOOK_UP_SECONDS:.0f} "
        "seconds are abandoned."
    )

    assert text in PAGE


@pytest.mark.parametrize(
    ("said", "configured"),
    [
        ("| 30 a minute, 40 at once |", "zone=planner_page:2m rate=30r/m;"),
        ("| 30 a minute, 40 at once |", "zone=planner_page burst=40 nodelay;"),
        ("| 60 a second, 400 at once |", "zone=planner_other:2m rate=60r/s;"),
        ("| 60 a second, 400 at once |", "zone=planner_other burst=400 nodelay;"),
        ("| 150 | `limit_conn planner_visitor`", "limit_conn planner_visitor 150;"),
        ("| 64 kB | `client_max_body_size`", "client_max_body_size 64k;"),
    ],
)
def test_the_limits_are_those_of_nginx(said, configured) -> None:
    """As they come."""
    assert said in PAGE
    assert configured in NGINX


def test_the_units_memory_is_the_one_it_says() -> None:
    """7 GB for all visitors."""
    assert "`MemoryMax` for all visitors together (default 7 GB)" in PAGE
    assert "\nMemoryMax=7G\n" in UNIT


def test_a_monitor_reads_what_the_page_shows() -> None:
    """The names of the answer of /healthz are those of the server's own test."""
    (shown,) = re.findall(r'^\{"status".*\}$', PAGE, re.M)

    assert json.loads(shown) == {
        "status": "ok",
        "sessions": 0,
        "max_sessions": 60,
        "pool": 10,
        "pool_size": 10,
    }
