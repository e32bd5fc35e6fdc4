"""Damaged texts: whatever is pasted gives inputs or a sentence, and nothing runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

import planner

FOLDER = Path(__file__).parents[1] / "data/texts"
TEXTS = [
    path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.iterdir())
    if path.suffix in (".sh", ".py", ".yaml", ".yml", ".txt")
]
LONGEST_SENTENCE = 700
PIECES = (
    *("'", '"', "\\", "\n", "`", "$(", "$(touch ran)", ")", "{", "}", "[", "]", "\0"),
    *(
        "&& touch ran",
        "; touch ran;",
        "| tee ran",
        "> ran",
        "${",
        "${A:-",
        "--",
        "=",
        ",",
    ),
    *(
        "&a",
        "*a",
        "<<: *a",
        "- &b [*b]",
        "!!python/object/apply:os.system ['touch ran']",
    ),
    *("\x1b[31m", "\x07", "\u202e", "\ufeff", "é", "🙂", "\r\n", "\t", "#", ": ", "- "),
    *("\"'\"'\"'", "\\\n", '\\"', "'''", '"""', "{{ .Values.x }}", "%s", "../../etc"),
)


def mutated(text: str, random: Random) -> str:
    """Return a text cut, doubled, or with pieces put in, one to four times."""
    for _ in range(random.randint(1, 4)):
        at, end = sorted(random.randint(0, len(text)) for _ in range(2))
        text = random.choice(
            (
                text[:at],
                text[at:],
                text[:at] + text[end:],
                text[:end] + text[at:],
                text[:at] + random.choice(PIECES) + text[at:],
                text[:at] + random.choice(PIECES) * random.randint(2, 40) + text[end:],
                text[:at] + random.choice(TEXTS) + text[at:],
                text[:at] + text[at:end][::-1] + text[end:],
            )
        )
    return text


def read_or_sentence(text: str) -> planner.Reading | str:
    """Return a reading, or the sentence that refuses the text."""
    try:
        return planner.read(text)
    except planner.PlannerError as error:
        return str(error)


@pytest.mark.parametrize("many", [500, pytest.param(5_000, marks=pytest.mark.nightly)])
def test_a_mutated_text_gives_inputs_or_a_sentence(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other exception, and no program that a text names has run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr(os, "system", None)
    random = Random(22)
    num_read = 0
    for number in range(many):
        text = mutated(TEXTS[number % len(TEXTS)], random)
        found = read_or_sentence(text)
        if isinstance(found, str):
            assert found.endswith((".", "?")), text
            assert len(found) < LONGEST_SENTENCE, text
        else:
            num_read += 1
            found.to_dict()
            if number % 10 == 0:  # each is read twice more
                change_and_read_again(found)

    assert num_read > many / 5  # YAML seldom survives a cut
    assert list(tmp_path.iterdir()) == []


def change_and_read_again(found: planner.Reading) -> None:
    """Give a text back with a value that a shell, YAML or Python would run."""
    if found.start is None:
        return
    evil = "$(touch ran)`touch ran`'\"; touch ran #"
    try:
        text = found.text(served_model_name=evil)
    except planner.PlannerError:
        return
    assert text != found.given


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The text is empty"),
        (" \n\t ", "The text is empty"),
        ("\0\0\0", "binary data"),
        ("x" * 5_000_000, "5,000,000 characters"),
        ("{" * 60_000, "No start of vLLM"),
        ("{{ " * 20_000, "No start of vLLM"),
        ("[" * 60_000, "No start of vLLM"),
        ("hello, could you tell me how much memory I need?", "No start of vLLM"),
    ],
)
def test_a_text_of_nothing_says_what_can_be_read(text: str, says: str) -> None:
    """In one sentence, with the forms that are read."""
    found = read_or_sentence(text)

    assert isinstance(found, str)
    assert says in found


def test_what_is_given_back_is_quoted_for_its_shell() -> None:
    """A value with a shell's characters stays one word."""
    evil = "a b; $(touch ran) 'x'"
    text = planner.read("vllm serve org/m --max-model-len 8192").text(model=evil)
    inner = planner.read('bash -c "vllm serve org/m"').text(model=evil)

    assert planner.read(text).model == evil
    assert planner.read(inner).model == evil


def test_what_is_given_back_is_quoted_for_python() -> None:
    """A value with quotes stays one string."""
    evil = "a'\"\\ b"
    text = planner.read('from vllm import LLM\nLLM(model="org/m")\n').text(model=evil)

    assert planner.read(text).model == evil
