"""Logs as they reach their reader: prefixed, coloured, wrapped, quoted, as JSON."""

from __future__ import annotations

import html
import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.confirming.log import read_log
from planner.confirming.log.lines import lines_of
from tests.confirming.test_log import MIDDLE, NEWER, OLDER, V0
from tests.confirming.test_log_outcome import FAILED

LOGS = (V0, OLDER, MIDDLE, NEWER, FAILED)
PREFIXES = (
    "",
    "(EngineCore pid=22122) ",
    "(EngineCore_DP0 pid=44265) ",
    "(Worker_DP1_PP0_TP3_EP7 pid=444) ",
    "(VllmWorker rank=1 pid=771994) ",
    "(VllmWorkerProcess pid=237) ",
    "(VllmWorker-0 pid=22148) ",
    "(RayWorkerWrapper pid=4711, ip=10.0.0.7) ",
    "(EngineCore_0 pid=9) (RayWorkerWrapper pid=4711, ip=10.0.0.7) ",
    "\x1b[1;36m(EngineCore_0 pid=9)\x1b[0;0m ",
    "[1;36m(EngineCore_0 pid=9)[0;0m ",
    "2026-11-21T15:15:40.123456789Z ",
    "2026-11-21T15:15:40.123456789Z stderr F ",
    "2026-11-21T15:15:40.123456789+01:00 stdout P ",
    "[2026-11-21 15:15:40,123] ",
    "[pod/vllm-0/server] ",
    "[pod/vllm-0/server] 2026-11-21T15:15:40Z ",
    "vllm-llm-1  | ",
    "Nov 21 15:15:40 host vllm[812]: ",
    "Nov 21 15:15:40 host docker/vllm[812]: ",
    "> ",
    "> > ",
    "\u258e ",
    "2026-06-09 14:01:52.982 [Error] (Process) ",
    "0: ",
    "[rank0]: ",
    "(pid=776, ip=10.0.0.7) ",
    "# ",
    "my-prefix ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("log", LOGS)
def test_what_stands_before_a_line_is_no_figure(log: str, prefix: str) -> None:
    """The figures are those of the log without it."""
    prefixed = "\n".join(prefix + line for line in log.strip().splitlines())
    assert read_log(log).figures == read_log(prefixed).figures
    assert read_log(log).started is read_log(prefixed).started


@given(st.lists(st.sampled_from(PREFIXES), max_size=4), st.sampled_from(LOGS))
def test_prefixes_of_prefixes_change_nothing(prefixes: list[str], log: str) -> None:
    """Ray in docker in Kubernetes in an issue."""
    prefix = "".join(prefixes)
    prefixed = "\n".join(prefix + line for line in log.strip().splitlines())
    assert read_log(log).figures == read_log(prefixed).figures


@given(st.text())
def test_reading_never_raises(text: str) -> None:
    """Whatever was pasted."""
    assert isinstance(read_log(text).to_dict(), dict)


@given(
    st.lists(
        st.sampled_from(
            [
                *(line for log in LOGS for line in log.splitlines()),
                "non-default args: {'a': [1, {",
                "ValueError: ",
                "1 validation error for ModelConfig",
                '{"message": "x"}',
                "{}",
                "(EngineCore pid=1) ",
                "took GiB",
                "Capturing CUDA graphs:  40%|",
            ]
        )
    ),
    st.sampled_from(["\n", "\r", "\r\n", " ", "\\n", ""]),
)
def test_reading_pieces_never_raises(lines: list[str], between: str) -> None:
    """Nor when they are vLLM's own, in any order."""
    assert isinstance(read_log(between.join(lines)).to_dict(), dict)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("width", [60, 72, 80, 100, 132])
def test_lines_that_a_page_wraps(log: str, width: int) -> None:
    """At words, as an editor does, and anywhere, as a terminal does."""
    lines = log.strip().splitlines()
    at_words = [
        part
        for line in lines
        for part in textwrap.wrap(
            line, width, break_long_words=False, break_on_hyphens=False
        )
    ]
    assert read_log(log).figures == read_log("\n".join(at_words)).figures
    anywhere = [
        line[start : start + width]
        for line in lines
        for start in range(0, len(line), width)
    ]
    assert read_log(log).figures == read_log("\n".join(anywhere)).figures


@pytest.mark.parametrize("log", LOGS)
def test_lines_as_json(log: str) -> None:
    """vLLM's own JSON, docker's files, a collector around both."""
    lines = log.strip().splitlines()
    as_json = [json.dumps({"levelname": "INFO", "message": line}) for line in lines]
    assert read_log(log).figures == read_log("\n".join(as_json)).figures
    docker = [json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in lines]
    assert read_log(log).figures == read_log("\n".join(docker)).figures
    around = [json.dumps({"body": line, "severity": "info"}) for line in docker]
    assert read_log(log).figures == read_log("\n".join(around)).figures


@pytest.mark.parametrize("log", LOGS)
def test_other_ends_and_escapes(log: str) -> None:
    """Windows' ends of lines, HTML's escapes, a notebook's strings."""
    assert read_log(log).figures == read_log(log.replace("\n", "\r\n")).figures
    assert read_log(log).figures == read_log(html.escape(log)).figures
    cell = "\n".join(f'      "{line}\\n",' for line in log.strip().splitlines())
    assert read_log(log).figures == read_log(cell).figures


def test_what_markdown_escapes() -> None:
    """A forum's page writes a backslash before each bracket."""
    escaped = FAILED.replace("[", "\\[").replace("]", "\\]").replace("_", "\\_")
    assert read_log(FAILED).to_dict() == read_log(escaped).to_dict()


def test_a_record_behind_a_progress_bar_is_a_record() -> None:
    """The bar ends without a line's end; its carriage returns end lines."""
    lines = lines_of(
        "Capturing CUDA graph shapes:  91%|#| 10/11 [00:09<00:00,  1.13it/s]"
        "(VllmWorkerProcess pid=92) INFO 04-10 08:58:41 [model_runner.py:1570] Graph "
        "capturing finished in 12 secs, took 0.29 GiB"
    )
    assert ["", "VllmWorkerProcess"] == [line.process for line in lines]
    assert [None, "INFO"] == [line.level for line in lines]
    assert "04-10 08:58:41" == lines[1].stamp
    assert lines[1].text.startswith("Graph capturing finished")


def test_a_table_is_not_taken_for_a_prefix() -> None:
    """Its first column may be what the number is of."""
    assert {
        "weights_gib": 14.99,
        "activation_gib": 4.76,
        "available_kv_gib": 51.38,
    } == (
        read_log("| vLLM | weights 14.99 | activation 4.76 | KV 51.38 | TP 1 |").figures
    )
