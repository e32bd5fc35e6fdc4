"""Readings and explanations, shown as text and as HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.reading.logs.explaining import Explanation
from planner.reading.logs.logs import reading_of_log
from planner.reading.reading import Reading
from planner.reading.recognising import read

TEXTS = Path(__file__).parents[1] / "data/texts"
NAMES = sorted(path.name for path in TEXTS.glob("*.txt") if "metrics" not in path.name)


def read_file(name: str) -> Reading:
    """Return the reading of a file of tests/data/texts."""
    return reading_of_log((TEXTS / name).read_text(encoding="utf-8"))


def html_of(shown: Reading | Explanation) -> str:
    """Return what a notebook shows."""
    return str(shown._repr_mimebundle_()["text/html"])


def test_a_reading_says_what_it_took_the_text_for() -> None:
    """What was filled in, kept, left aside, and is open."""
    text = str(read_file("log-kubectl-capture.txt"))

    assert text.startswith("Read as: log\n")
    assert "Qwen/Qwen3-4B" in text
    assert "RTX4090 (23.52 GiB)" in text
    assert "max_model_len=8192" in text
    assert "Left aside:\n  /models/Qwen3-4B is a folder" in text


def test_what_is_open_is_asked_for() -> None:
    """A line for each, in the user's own terms."""
    assert "Still open:\n  On which GPU: gpu='H100'." in str(
        read_file("log-old-0.9.txt")
    )


def test_arguments_without_effect_are_kept_apart() -> None:
    """Flags of the server, and engine arguments that change no memory."""
    lines = str(read_file("log-docker-too-long.txt")).splitlines()

    (kept,) = [line for line in lines if "Kept, no effect" in line]
    assert "tool_call_parser=hermes" in kept
    assert 'served_model_name=["chat"]' in kept


def test_keys_are_not_shown() -> None:
    """A command may hold the key of the server."""
    reading = read("vllm serve Qwen/Qwen3-8B --api-key s3cret --port 80")

    for shown in (str(reading), html_of(reading)):
        assert "s3cret" not in shown
        assert "api_key=***" in shown


@pytest.mark.parametrize("name", NAMES)
def test_every_text_can_be_shown(name: str) -> None:
    """As text and as HTML, with and without a plan."""
    reading = read_file(name)
    found = reading.explain()

    assert html_of(reading).count("<table") == 1
    assert found.headline in str(found)
    assert found.headline in html_of(found).replace("&#x27;", "'")
    for fix in found.fixes:
        assert fix.title in str(found)
        assert fix.cost in str(found)


def test_an_explanation_has_the_parts_in_order() -> None:
    """The check, the arithmetic, changes, the plan, then measured figures."""
    text = str(read_file("log-docker-too-long.txt").explain("RTX4090"))
    parts = [
        "vLLM did not start: max_model_len",
        "Short: 0.70 GiB",
        "1. ",
        "Cost: ",
        "| docker run --rm",
        "Qwen/Qwen3-8B on RTX4090, vLLM 0.27.1",
        "Estimate and measurement, line by line:",
    ]
    places = [text.index(part) for part in parts]

    assert places == sorted(places)


def test_differences_come_first() -> None:
    """A plan of another model, with more GPUs."""
    reading = read_file("log-started-4090.txt")
    text = str(reading.explain(model="Qwen/Qwen3-4B"))

    assert text.startswith("The text is of Qwen/Qwen3-8B, the plan of Qwen/Qwen3-4B.")


def test_text_of_a_stranger_is_no_html() -> None:
    """A log can hold anything."""
    line = "ValueError: <script>alert(1)</script> No available memory for the cache"
    reading = reading_of_log(f"{line} blocks <b>\n")

    for shown in (reading, reading.explain()):
        assert "<script>" not in html_of(shown)
        assert "<b>" not in html_of(shown)
