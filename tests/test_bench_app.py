"""What `make bench-app`, `make bench-gpus` and `make soak` measure with."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks import set_ups
from benchmarks.app import figures, processes, visitor, wire
from benchmarks.app.figures import Figure

STEP = Figure(name="step", value=40.0, unit="ms", limit=50)


@pytest.mark.parametrize("protocol", wire.PROTOCOLS)
def test_a_message_is_read_as_it_was_written(protocol) -> None:
    """Binary and JSON text alike; the binary form begins with its offsets."""
    content = {"comm_id": "ä", "data": {"method": "custom"}}
    _, written = wire.written(protocol, "comm_msg", content, "session")
    message = wire.read(written)

    assert ("comm_msg", "", content) == (message.kind, message.answers, message.content)
    assert len(written) == message.num_bytes


def test_a_step_is_what_the_page_sends() -> None:
    """The controls' own message, to the widget that holds the slider."""
    controls = {"_anywidget_id": "planner.app.widgets.controls.Controls"}
    states = {
        "more": {"state": controls | {"state": {"seed": {}}}},
        "main": {"state": controls | {"state": {visitor.SLIDER: {}}}},
    }
    asked = visitor.step_of(states)(0.9)

    assert "main" == asked["comm_id"]
    assert {"set": visitor.SLIDER, "value": 0.9, "n": 1} == asked["data"]["content"]
    with pytest.raises(visitor.NoPage, match=visitor.SLIDER):
        visitor.step_of({})


def test_a_process_is_measured_with_its_children() -> None:
    """A server's family: memory, processor time and open files of all of it."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "ipykernel_launcher"], stdin=subprocess.PIPE
    ) as child:
        family = processes.family(os.getpid())
        (kernel,) = family.kernels
        child.communicate(b"\n")

    assert child.pid == kernel.pid
    assert kernel.pss_bytes > 0
    assert family.server.num_files >= 3
    assert family.pss_bytes == family.others_pss_bytes + kernel.pss_bytes
    assert () == processes.family(os.getpid()).kernels


def test_the_percentile_lies_between_the_two_nearest() -> None:
    """Of 0 to 20, 95 in a hundred are at most 19."""
    assert 19 == figures.p95(range(21))


def test_a_limit_is_a_figure_s_most() -> None:
    """What has none, or is another's, always holds."""
    assert STEP.holds
    assert not replace(STEP, value=50.1).holds
    assert replace(STEP, value=99.0, limit=None).holds
    assert replace(STEP, value=99.0).of_alternative().holds


def test_the_alternative_stands_beside_what_it_is_compared_with() -> None:
    """One row for both; what it has alone gets a row of its own."""
    other = replace(STEP, value=200.0, limit=None).of_alternative()
    alone = replace(other, name="alone")
    row, last = figures.beside([STEP, other, alone])

    assert (40.0, 50, 200.0) == (row.value, row.limit, row.alternative)
    assert "alone" == last.name
    assert "| step | 50 ms | 40 ms | 200 ms |" in figures.as_markdown([row])
    assert "✔ step" in figures.as_text([row])


def test_an_older_commit_stands_beside_what_it_is_compared_with() -> None:
    """A row for what both have; what only the older commit had is left out."""
    before = replace(STEP, value=45.0).of_before()
    (row,) = figures.beside([STEP, before, replace(before, name="gone")])

    assert (40.0, 50, 45.0) == (row.value, row.limit, row.before)
    assert before.holds
    other = replace(STEP, value=200.0).of_alternative()
    (row,) = figures.beside([STEP, before, other])
    assert "| step | 50 ms | 40 ms | 45 ms | 200 ms |" in figures.as_markdown([row])


def test_of_several_rounds_the_middle_one_counts() -> None:
    """One disturbed round changes nothing; a failure counts whichever round had it."""
    failed = Figure(name="failed", value=0, unit="", limit=0)
    rounds = [
        [replace(STEP, value=value, note=str(value)), replace(failed, value=failures)]
        for value, failures in ((40.0, 0), (90.0, 2), (30.0, 0))
    ]
    step, failures = figures.typical(rounds)

    assert (40.0, "40.0") == (step.value, step.note)
    assert 2 == failures.value


def test_the_page_has_a_place_for_each_table() -> None:
    """Where the two programs write; all else of the page stays."""
    page = figures.PAGE.read_text(encoding="utf-8")

    for part in ("app", "soak"):
        assert 1 == page.count(f"<!-- {part}: measured -->")
        assert 1 == page.count(f"<!-- {part}: end -->")


def test_a_table_replaces_the_one_before(tmp_path, monkeypatch) -> None:
    """Twice written is written once."""
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: measured -->\nold\n<!-- x: end -->\nb\n")
    monkeypatch.setattr(figures, "PAGE", page)
    figures.write("x", "new \\1")
    figures.write("x", "new \\1")

    assert "a\n<!-- x: measured -->\nnew \\1\n<!-- x: end -->\nb\n" == page.read_text()
    with pytest.raises(ValueError, match="no place for y"):
        figures.write("y", "new")


def test_a_search_of_set_ups_is_timed(monkeypatch, tmp_path) -> None:
    """Its first rows come before all of them, and the event loop goes on meanwhile."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    found = set_ups.timed("Qwen/Qwen3-8B", set_ups.CHAT)

    assert found.kinds > 0
    assert 0 < found.first < found.whole
    assert found.longest_wait < found.whole
