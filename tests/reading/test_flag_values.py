"""Names that no release of vLLM knows."""

import difflib
from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from planner.reading.flag_values import unknown_notes


def test_the_nearest_argument_is_named() -> None:
    """A flag as a flag, a name of Python as a name."""
    assert [
        "--max-modul-len is not an argument of any release of vLLM. Did you mean "
        "--max-model-len?",
        "max_modul_len is not an argument of any release of vLLM. Did you mean "
        "max_model_len?",
    ] == unknown_notes(["--max-modul-len", "max_modul_len"])


def test_of_many_names_the_first_are_compared_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A text of sixty thousand characters may hold thousands."""
    compared: list[str] = []
    nearest = difflib.get_close_matches

    def counting(name: str, *others: Any, **options: Any) -> list[str]:
        compared.append(name)
        return nearest(name, *others, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    flags = " ".join(f"--counted-{number} x" for number in range(1000))
    found = planner.read(f"vllm serve Qwen/Qwen3-8B {flags}")
    for _ in range(2):
        with pytest.raises(PlannerError, match="--counted-0 is not an argument") as no:
            found.plan("H100")

    assert 1000 == len(found.unknown)
    assert [f"counted_{number}" for number in range(8)] == compared
    assert str(no.value).endswith(
        "No release of vLLM has 992 more names of the text, such as --counted-999."
    )


def test_a_long_name_is_shown_by_its_beginning() -> None:
    """The sentence stays one."""
    (note,) = unknown_notes([f"--{'q' * 5000}"])
    assert len(note) < 200
