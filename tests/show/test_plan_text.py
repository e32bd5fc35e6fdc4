"""A plan as text, and its bar on a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.show.plan_text import bar, plan_text, shared_out
from planner.show.terminal import NARROWEST, WIDEST, Screen
from planner.units import GIB
from tests import plans

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
PATTERNS = "█▓▒▚▞░"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=9), st.integers(20, 99))
def test_cells_are_shared_out_by_size(sizes: list[int], num_cells: int) -> None:
    """All are given away; what is more than nothing has one; a share is kept to."""
    cells = shared_out(sizes, num_cells)

    assert (num_cells if any(sizes) else 0) == sum(cells)
    assert [size > 0 for size in sizes] == [cell > 0 for cell in cells]
    most = max(range(len(sizes)), key=sizes.__getitem__)
    assert cells[most] >= max(cells) - 1


def test_a_model_without_a_kv_cache_is_told_so() -> None:
    """An encoder stores nothing between steps: what is left of the budget is unused."""
    text = plan_text(planner.plan("BAAI/bge-m3", gpu="L4"))

    assert "of vLLM's budget left unused: this model stores no KV cache" in text
    assert "unused budget" in text
    assert "GPU KV cache size:     0 tokens: nothing is stored between steps" in text
    assert "Requests in one step:  256 by max_num_seqs" in text
    assert "KV cache left" not in text


def test_without_a_kv_cache_no_budget_is_checked() -> None:
    """vLLM 0.33.0 `v1/engine/core.py` measures nothing then, so that any length goes.

    5 % of an L4 are 1.10 GiB, of which the weights alone take 1.06.
    """
    plan = planner.plan("BAAI/bge-m3", gpu="L4", gpu_memory_utilization=0.05)

    assert plan.fits
    assert 8194 == plan.max_model_len_that_fits
    assert "more than its budget, which vLLM does not check" in plan_text(plan)


def test_a_plan_that_no_length_fits_says_so_in_two_words() -> None:
    """At the low end of the range, nothing may be left for any length."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", gpu_memory_utilization=0.8)
    assert "Longest max_model_len: none fits" in plan_text(plan)


def test_the_bar_shows_what_the_lines_hold() -> None:
    """100 cells of an H100: one is 0.80 GiB, so 16 GB of weights are 19 of them."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    (rank,) = plan.ranks
    drawn = bar(plan, rank, Screen(width=100, is_terminal=True))
    cell = plan.gpu.total_memory_bytes / 99
    weights, cache = rank.line("weights"), rank.line("KV cache")

    assert 100 == len(drawn)
    assert abs(weights.size_bytes / cell - drawn.count("█")) <= 1
    assert abs(cache.size_bytes / cell - drawn.count("▒")) <= 2
    assert drawn.index("│") == len(drawn.rstrip("·")) - 1
    assert (0.8, 19) == (round(cell / GIB, 2), drawn.count("█"))


def test_what_does_not_fit_goes_on_beyond_the_edge() -> None:
    """137 GB of weights on 79 GiB: the budget ends at about half of the bar."""
    plan = planner.plan("meta-llama/Llama-3.1-70B-Instruct", gpu="H100")
    (rank,) = plan.ranks
    drawn = bar(plan, rank, Screen(width=100, is_terminal=True))
    inside, _, beyond = drawn.partition("│")

    assert set(inside) == {"█"}
    assert "█" in beyond
    assert "▒" not in drawn
    assert "·" not in drawn
    needed = sum(line.size_bytes for line in rank.lines if line.size_bytes > 0)
    share = rank.requested_memory_bytes / needed
    assert abs(len(inside) - share * 99) <= 1


@pytest.mark.parametrize("plan", plans.ALL)
@pytest.mark.parametrize("width", [NARROWEST, 80, 120, WIDEST])
def test_it_is_the_same_text_at_every_width(plan, width: int) -> None:
    """Folded, painted and drawn or not: every word, and no figure is parted."""
    made = plan()
    plain = plan_text(made, Screen())
    screen = Screen(width=width, has_color=True, is_terminal=True)
    shown = ESCAPE.sub("", plan_text(made, screen))
    undrawn = re.sub(rf"^[{PATTERNS}▤▥▦▧▨▩·│]+(?= |$)", "", shown, flags=re.MULTILINE)

    assert plain.split() == undrawn.replace("(· in the bar)", "").split()
    for line in made.command().splitlines():
        assert line in shown.splitlines()


def test_a_line_says_which_part_of_the_bar_it_is() -> None:
    """By its pattern, so that the bar can be read without colours."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    shown = plan_text(plan, Screen(width=80, is_terminal=True))
    marks = {line.name: _mark(shown, line.name) for line in plan.ranks[0].lines}

    assert len(set(marks.values())) == len(marks)
    (drawn,) = [line for line in shown.splitlines() if "│" in line]
    assert set(marks.values()) | {"│", "·"} == set(drawn)
    assert "\x1b" not in shown


def _mark(shown: str, name: str) -> str:
    (line,) = re.findall(rf"^(.) {re.escape(name)}  ", shown, re.MULTILINE)
    return line


@pytest.mark.parametrize(
    ("colorterm", "style"), [("truecolor", "38;2;0;114;178"), ("", "38;5;31")]
)
def test_a_part_has_the_colour_that_it_has_on_the_page(
    colorterm: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are #0072B2: 0, 114, 178, or in a cube 16 + 6 x 2 + 3."""
    monkeypatch.setenv("COLORTERM", colorterm)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    screen = Screen(width=80, has_color=True, is_terminal=True)

    assert f"\x1b[{style}m███" in bar(plan, plan.ranks[0], screen)


def test_without_a_terminal_there_is_no_bar_and_a_figure_has_one_line() -> None:
    """As `grep` finds it."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    shown = plan_text(plan, Screen())

    assert not set(PATTERNS) & set(shown)
    for line in plan.ranks[0].lines:
        assert [line.why] == re.findall(
            rf"^  {line.name} +[0-9.]+ GiB  {line.basis} +(.*)$", shown, re.MULTILINE
        )
