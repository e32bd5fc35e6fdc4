"""Long texts of one repeated fragment: each piece is read once, and all in linear time.

Most of them count what is asked of a text; no test knows how fast a machine is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import process_time
from types import ModuleType

import pytest

import planner
from planner.engine.server import flag_named
from planner.errors import PlannerError
from planner.reading import recognising
from planner.reading.questions.question_words import blanked
from planner.reading.scripts import shell
from planner.reading.starts import container, image_file

START = "vllm serve a/b --max-model-len 9\n"


def counted(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType | type, name: str
) -> list[object]:
    """Return the first arguments that a function is given from now on."""
    known: Callable[..., object] = getattr(module, name)
    given: list[object] = []

    def counting(*args: object, **named: object) -> object:
        given.append(args[0])
        return known(*args, **named)

    monkeypatch.setattr(module, name, counting)
    return given


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes less than nine times as long; sixteen else."""
    work(size)
    taken: dict[int, float] = {}
    for many in (size, 4 * size):
        rounds = []
        for _ in range(2):
            begun = process_time()
            work(many)
            rounds.append(process_time() - begun)
        taken[many] = min(rounds)
    return taken[4 * size] < 9 * taken[size]


def test_a_text_without_blocks_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is its only document, and the whole text as well."""
    given = counted(monkeypatch, recognising, "_starts_in")
    with pytest.raises(PlannerError, match="No start of vLLM"):
        planner.read("x\n" * 200)
    assert 1 == len(given)


def test_a_block_that_starts_nothing_is_read_with_the_text_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a start beside a block is found, as before."""
    given = counted(monkeypatch, recognising, "_starts_in")
    found = planner.read(f"Run it so:\n```\nls\n```\n\n{START}")
    assert ("a/b", 2) == (found.model, len(given))


def test_a_command_that_starts_nothing_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No form of a container is looked for in it."""
    given = counted(monkeypatch, container, "deployment_in")
    found = planner.read("echo x\nls -l\n" * 200 + START)
    assert ("a/b", 1) == (found.model, len(given))


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve a/b",
        "python benchmark_latency.py --model a/b",
        "/usr/bin/podman run vllm/vllm-openai --model a/b",
        "kubectl run x --image vllm/vllm-openai -- --model a/b",
        "az container create --image vllm/vllm-openai --command-line 'vllm serve a/b'",
        "lm_eval --model vllm --model_args pretrained=a/b",
        "ssh host 'vllm serve a/b'",
    ],
)
def test_each_form_of_a_command_is_found_among_those_passed_over(command: str) -> None:
    """Whatever names it: a program, a script, a runner of containers, a cloud's."""
    found = planner.read(f"ls -l\n{command}\nls -l\n")
    assert ("a/b", 1) == (found.model, found.num_starts)


def test_only_a_file_with_from_is_an_image_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that instruction there is nothing to build."""
    given = counted(monkeypatch, image_file, "commands_of")
    planner.read(f"CMD ls\n{START}")
    assert [] == given
    planner.read('FROM vllm/vllm-openai\nCMD ["--model", "a/b"]\n')
    assert 1 == len(given)


def test_empty_lines_end_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of them are passed over as one."""
    given = counted(monkeypatch, shell._Reader, "_branch")
    found = planner.read("M=a/b\n" + "\n \t\n" * 500 + "vllm serve $M" + "\n" * 500)
    assert "a/b" == found.model
    assert len(given) < 10


def test_empty_lines_before_a_here_document_are_its_own() -> None:
    """What begins with empty lines is read from its first one."""
    text = f"cat <<EOF > run.sh\n\n\n{START}EOF\n\n\nbash run.sh\n"
    assert "a/b" == planner.read(text).model


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a;" * 300,
        "from vllm import LLM\n" + "".join(f"LLM('a/m{n}')\n" for n in range(300)),
        "- vllm serve a\n" * 300,
        "type: service\nresources: {gpu: H100}\ncommands:\n" + "- vllm serve a\n" * 300,
    ],
    ids=["shell", "code", "list", "job"],
)
def test_more_starts_than_are_read_are_said(text: str) -> None:
    """None is dropped in silence, and none after the first too many is looked at."""
    with pytest.raises(PlannerError, match="more than 200 starts of vLLM"):
        planner.read(text)


def test_as_many_starts_as_are_read_are_all_read() -> None:
    """The last one among them."""
    text = "".join(f"vllm serve a/m{n};" for n in range(200))
    found = planner.read(text, start=200)
    assert ("a/m199", 200) == (found.model, found.num_starts)


def test_a_flag_is_looked_up_among_the_few_that_begin_like_it() -> None:
    """The beginning of one name is that name; of two it is none."""
    assert "max_model_len" == (flag_named("--max-model-l") or ("",))[0]
    assert flag_named("--max-") is None
    assert flag_named("--zzz") is None


def test_what_is_taken_from_a_question_is_blanked_in_one_pass() -> None:
    """Overlapping stretches too; the others stay where they are."""
    assert "a   e  h" == blanked("abcdefgh", [(5, 7), (1, 3), (2, 4)])
    assert is_linear(
        lambda size: blanked("H100 " * size, ((5 * n, 5 * n + 4) for n in range(size))),
        5_000,
    )


@pytest.mark.parametrize(
    ("before", "fragment"),
    [
        ("vllm serve a/b ", "x\n"),
        ("vllm serve a/b ", "--a "),
        ("FROM vllm/vllm-openai\nCMD [", "&a "),
        ("", "H100 "),
        ("", "Qwen3 8B "),
    ],
)
def test_the_time_grows_with_the_text(before: str, fragment: str) -> None:
    """Twice as much of the same takes about twice as long."""

    def work(size: int) -> None:
        with suppress(PlannerError):
            str(planner.read(before + fragment * (size // len(fragment))))

    assert is_linear(work, 2_500)
