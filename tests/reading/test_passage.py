"""What stands for something else: put in up to one limit, wherever a text has it."""

from __future__ import annotations

import pytest

import planner
from planner import PlannerError
from planner.reading.passage import (
    MOST_EXPANDED,
    Composer,
    Expansion,
    Passage,
    together,
)

LEVELS = 10
"""Each four times the one before: 4 ** 10 characters are four times the limit."""


def _doubled(first: str, line: str) -> str:
    """Return lines of which each names the one before four times."""
    return first + "".join(line.format(n=n, m=n - 1) for n in range(1, LEVELS))


SHELL = "M=Q;" + "M=$M$M$M$M;" * LEVELS
POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai
    args: [--model, $(A9)]
    env:
"""
CODE = "from vllm import LLM\n"
GROWING = {
    "shell": SHELL + "vllm serve $M",
    "shell within another": f"bash -c '{SHELL}vllm serve $M'",
    "braces": SHELL.replace("$M", "${M:-x}") + "vllm serve a",
    "one variable, many times": f"M={'x' * 500}\nvllm serve {'$M ' * 1000}",
    "Dockerfile": (
        "FROM vllm/vllm-openai\nENV M=Q\n" + "ENV M=$M$M$M$M\n" * LEVELS + 'CMD ["a"]\n'
    ),
    "Slurm": "#SBATCH --gres=gpu:4\n" + SHELL + "srun vllm serve $M",
    "SkyPilot": f"resources: {{}}\nname: model\nrun: |\n  {SHELL}vllm serve $M\n",
    "variables of a container": _doubled(
        POD + "    - {name: A0, value: Qwen}\n",
        "    - {{name: A{n}, value: $(A{m})$(A{m})$(A{m})$(A{m})}}\n",
    ),
    "Compose": (
        "services:\n  vllm:\n    image: vllm/vllm-openai\n    command: |\n"
        f"      {SHELL.replace('$M', '$$M')}vllm serve $$M\n"
    ),
    "anchors": _doubled(
        "model: &a0 [x, x]\n", "x{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}]\n"
    ),
    "anchors in a list": _doubled(
        "model: x\n---\n- &a0 [x]\n", "- &a{n} [*a{m}, *a{m}, *a{m}, *a{m}]\n"
    ),
    "a long anchor": "model: &a " + "x" * 500 + "\nb: [" + "*a , " * 1000 + "]\n",
    "Python values": (
        CODE
        + _doubled("", "a{n} = dict(x=a{m}, y=a{m}, z=a{m}, t=a{m})\n")
        + "a0 = dict(dtype='auto')\nLLM(hf_overrides=a9)\n"
    ),
    "a long name in Python": (
        f"{CODE}x = [{'1, ' * 900}]\nLLM({', '.join(f'a{n}=x' for n in range(400))})\n"
    ),
    "shell in Python": CODE + f"c = '''{SHELL}vllm serve $M '''\n",
    "many of these in Python": CODE
    + f"c = '''{SHELL.removesuffix('M=$M$M$M$M;' * 3)}vllm serve $M '''\n" * 20,
}


@pytest.mark.parametrize("form", GROWING)
def test_a_text_that_grows_without_bound_is_a_sentence(form: str) -> None:
    """A few hundred characters that stand for millions."""
    with pytest.raises(PlannerError, match="grows by more than 262,144 characters"):
        planner.read(GROWING[form])


def test_a_part_and_what_is_inside_share_the_count_of_the_whole() -> None:
    """No layer begins again."""
    whole = Passage.whole("a b")
    part = whole.part(0, 1)

    assert part.expansion is whole.expansion
    assert part.inside("x", [0, 1], str).expansion is whole.expansion
    assert Passage.whole("a b").expansion is not whole.expansion


def test_texts_together_are_each_written_where_they_stand() -> None:
    """A part of one of them is its own; what a name stands for tells the name, too."""
    page = Passage.whole("'ab' M 'c'")
    made = Composer(page)
    made.put_in(page.part(8, 9), 5)
    both = together([page.part(1, 3), made.passage(6)], "-")

    assert (both.text, list(both.places)) == ("ab-c", [1, 2, 5, 5, 6])
    assert both.part(1, 2).places == page.part(2, 3).places
    assert (list(both.part(3, 4).places), both.part(3, 4).through) == (
        [8, 9],
        ((5, 6),),
    )
    assert list(both.own(3, 4).places) == [5, 6]


def test_as_much_as_is_allowed_is_read() -> None:
    """The limit itself is within it."""
    expansion = Expansion()
    expansion.add(MOST_EXPANDED)

    with pytest.raises(PlannerError, match="Write the start of vLLM out"):
        expansion.add(1)


def test_what_a_text_says_itself_is_not_counted() -> None:
    """Nothing is put in for anything: a command of any length is read."""
    whole = Passage.whole("vllm serve org/m 'a b' \"c\"")
    assert whole.expansion.num_characters == 0
    found = planner.read(f"M=org/m\nvllm serve $M --served-model-name {'x' * 50_000}")
    assert found.model == "org/m"
