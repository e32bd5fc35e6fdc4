"""The four uses of a text's pieces, which add up to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.reading import Reading
from planner.reading.account import Use

EXPECTED = ("commands.json", "manifests.json", "languages.json")
TEXTS = [
    path
    for path in sorted((Path(__file__).parents[1] / "data" / "texts").iterdir())
    if path.name not in EXPECTED
]
CASES = Path(__file__).parents[3] / "shared" / "reading" / "cases.jsonl"
SCRIPT = """\
CTX=8192
docker run --gpus all -p 80:8000 vllm/vllm-openai:v0.10.0 \\
  --model Qwen/Qwen3-8B --max-model-len $CTX --port 8000 --fooo 3 -tp ${N}
"""


def uses(reading: Reading, use: Use) -> list[str]:
    """The words of one use, in order."""
    return [piece.text for piece in reading.account if piece.use is use]


def remainder(reading: Reading) -> str:
    """What is in no piece, where pieces are in order and apart."""
    left, done = "", 0
    for piece in reading.account:
        assert done <= piece.start < piece.end
        assert piece.text == reading.given[piece.start : piece.end]
        left += reading.given[done : piece.start]
        done = piece.end
    return (left + reading.given[done:]).strip()


def test_a_command_is_accounted_for_word_by_word() -> None:
    """With the assignment that a variable stands for."""
    reading = planner.read(SCRIPT)

    assert uses(reading, Use.USED) == [
        *("8192", "0.10.0", "--model", "Qwen/Qwen3-8B", "--max-model-len", "$CTX")
    ]
    assert uses(reading, Use.OPEN) == ["-tp", "${N}"]
    assert uses(reading, Use.NOT_UNDERSTOOD) == ["--fooo", "3"]
    assert {"--port", "8000"} <= set(uses(reading, Use.KEPT))


def test_a_number_that_a_question_has_no_use_for_is_not_understood() -> None:
    """Bananas do not matter, how many might."""
    reading = planner.read("Will Qwen3 8B fit 3 L4 with 17 bananas?")

    assert uses(reading, Use.NOT_UNDERSTOOD) == ["17"]
    assert {"Qwen3 8B", "3 L4"} <= set(uses(reading, Use.USED))


def test_words_that_only_a_run_tells_are_open() -> None:
    """Named in the list, and marked in the text."""
    reading = planner.read('vllm serve org/m --max-model-len 8K "$@" $MORE\n')

    assert uses(reading, Use.OPEN) == ['"$@"', "$MORE"]
    assert "What $@ adds is not told by the text." in reading.open


def test_the_lines_of_a_log_that_tell_something_are_used() -> None:
    """So is the command before them."""
    line = "INFO 04-22 01:47:55 [gpu_worker.py:436] Available KV cache memory: 3.2 GiB"
    reading = planner.read(f"$ vllm serve Qwen/Qwen3-8B\n{line}\nhello\n")

    assert uses(reading, Use.USED) == ["vllm serve Qwen/Qwen3-8B", line]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_the_pieces_of_people_s_texts_add_up(path: Path) -> None:
    """Only blanks are in none, and each argument is told by a piece."""
    reading = planner.read(path)
    told = {piece.what.partition(":")[0] for piece in reading.account}
    by_chart = {"enable_prefix_caching"}  # of the production stack, where it is silent
    names = set(reading.to_dict()["inputs"]["engine_args"]) - by_chart

    assert remainder(reading) == ""
    assert reading.log is not None or names <= told


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_the_pieces_of_all_cases_add_up() -> None:
    """Of every start in them."""
    for line in CASES.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        try:
            first = planner.read(text)
        except PlannerError:
            continue
        for start in range(1, first.num_starts + 1):
            assert remainder(planner.read(text, start=start)) == ""


@given(st.lists(st.sampled_from([*SCRIPT.split(), "\n", "'", '"', "8K", "fit?"])))
@example(["vllm", "serve", "a/b", "--max-model-len", "8K", "'"])
def test_no_word_is_in_no_piece(words: list[str]) -> None:
    """Whatever is put together."""
    try:
        reading = planner.read(" ".join(["vllm serve org/m", *words]))
    except PlannerError:
        return

    assert remainder(reading) == ""
