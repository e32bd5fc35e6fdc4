"""`planner confirm`: exit status, what is printed, and what is said of wrong input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from planner.app.cli import BAD_INPUT, DOES_NOT_FIT, FITS, main
from planner.engine.releases import NEWEST
from tests.starts import LOG_OF_A_GPU

LOGS = Path(__file__).parents[1] / "data" / "logs"
SMALL = ["--gpu-memory-utilization", "0.1", "--dtype", "float32", "--no-store"]


def test_a_start_prints_both_sides_and_ends_with_zero(
    tiny_folder, vllm_stand_in, capsys
) -> None:
    """Release and device are those that are there; stages go to standard error."""
    del vllm_stand_in
    status = main(["confirm", str(tiny_folder), *SMALL])

    told = capsys.readouterr()
    assert status == FITS
    assert "measured" in told.out.lower()
    assert "KV cache" in told.out
    assert "loading weights" in told.err


def test_json_has_plan_and_measurement(tiny_folder, vllm_stand_in, capsys) -> None:
    """For other programs; nothing else is on standard output."""
    del vllm_stand_in
    main(["confirm", str(tiny_folder), *SMALL, "--entrypoint", "llm", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["gpu"]["name"] == "CPU"
    assert told["plan"]["vllm_version"] == NEWEST
    assert told["measured"]["is_started"] is True


def test_a_start_that_fails_ends_with_one(
    tiny_folder, vllm_stand_in, monkeypatch, capsys
) -> None:
    """And vLLM's words are printed."""
    del vllm_stand_in
    monkeypatch.setenv("FAKE_VLLM", json.dumps({"error": "No room at all."}))

    status = main(["confirm", str(tiny_folder), *SMALL])

    assert status == DOES_NOT_FIT
    assert "No room at all." in capsys.readouterr().out


def test_a_log_is_compared_without_starting_anything(tmp_path, capsys) -> None:
    """Model, length and release from the log; the GPU has to be said."""
    file = tmp_path / "vllm.log"
    file.write_text(LOG_OF_A_GPU)

    status = main(["confirm", "--gpu", "H100", "--log", str(file), "--json"])

    told = json.loads(capsys.readouterr().out)
    assert status == FITS
    assert told["plan"]["vllm_version"] == "0.19.0"
    assert told["plan"]["resolved"]["max_model_len"] == 32768
    assert told["measured"]["kv_cache_size_tokens"] == 371_408
    rows = {row["name"]: row for row in told["rows"]}
    assert rows["weights"]["is_inside"] is True
    assert rows["KV cache"]["measured"] == round(51.01 * 2**30)


def test_a_log_may_come_from_standard_input(monkeypatch, capsys) -> None:
    """`kubectl logs ... | planner confirm --gpu H100 --log -`."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(LOG_OF_A_GPU))

    assert main(["confirm", "--gpu", "H100", "--log", "-"]) == FITS
    assert "Qwen/Qwen3-8B" in capsys.readouterr().out


def test_a_log_that_cannot_be_planned_still_tells_its_figures(capsys) -> None:
    """Its model lies on another machine."""
    status = main(["confirm", "--log", str(LOGS / "cpu-0.32.0.log")])

    told = capsys.readouterr()
    assert status == FITS
    assert json.loads(told.out)["started"] is True
    assert "Only the log's figures follow" in told.err
    assert "planner confirm MODEL --gpu NAME --log FILE" in told.err


def test_the_log_of_a_start_that_failed_ends_with_one(capsys) -> None:
    """As the start did."""
    status = main(["confirm", "--log", str(LOGS / "cpu-0.32.0-too-long.log")])

    assert status == DOES_NOT_FIT
    assert "error" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "time=12:00 level=INFO msg=llama.cpp offloading 33 layers\n",
            "not a log of vLLM",
        ),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path, capsys, text, words) -> None:
    """Or one that is not there."""
    file = tmp_path / "some.log"
    if text is not None:
        file.write_text(text)

    status = main(["confirm", "Qwen/Qwen3-8B", "--gpu", "H100", "--log", str(file)])

    told = capsys.readouterr()
    assert status == BAD_INPUT
    assert words in told.err
    assert str(file) in told.err


def test_a_missing_model_and_a_missing_vllm_are_one_sentence(
    tiny_folder, capsys, monkeypatch
) -> None:
    """Nothing of Python's traceback."""
    monkeypatch.delenv("PLANNER_VLLM_PYTHON", raising=False)

    assert main(["confirm"]) == BAD_INPUT
    assert "planner confirm MODEL" in capsys.readouterr().err
    assert main(["confirm", str(tiny_folder)]) == BAD_INPUT
    assert "vLLM is not installed" in capsys.readouterr().err
