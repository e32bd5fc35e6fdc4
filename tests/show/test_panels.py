"""The panels that explain a plan: titles with their figure, insides when opened."""

import re
from html import unescape

import pytest

import planner
from planner.engine.releases import NEWEST
from planner.learn import checkpoint
from planner.show.kv_cache import costs, kv_cache_html
from planner.show.lines import CPU_FACTS, LINE_FACTS
from planner.show.page import OPEN_AT_FIRST, PANELS, panels_html
from planner.show.tables import lines_table, outside_table
from planner.units import GIB, KIB, MIB
from tests import plans


def text(html: str) -> str:
    """What a reader sees."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def test_a_closed_panel_is_its_title_and_its_figure() -> None:
    """28,076 blocks of 16 tokens are 449,216 tokens."""
    shown = panels_html(plans.fitting(), opened=())

    assert 28_084 * 16 == 449_344
    assert text(shown["panel-kv-cache"]).split() == [
        *("KV", "cache", "28,076", "blocks,", "449,216", "tokens")
    ]


@pytest.mark.parametrize("key", PANELS)
def test_an_open_panel_has_its_inside(key) -> None:
    """And says by `open` that it is."""
    plan = planner.plan(plans.LLAMA_8B, gpu="L4", kv_offloading_size=4)
    opened = panels_html(plan, opened={key})[f"panel-{key}"]
    closed = panels_html(plan, opened=())[f"panel-{key}"]

    assert len(opened) > len(closed)
    assert " open>" in opened
    assert " open>" not in closed


def test_the_memory_lines_and_the_notes_are_open_at_first() -> None:
    """The twin of the chart, and what nobody may miss."""
    assert {"memory", "notes"} == OPEN_AT_FIRST


def test_a_refused_plan_has_no_panels_but_its_notes() -> None:
    """Nothing is loaded, so there is nothing to explain."""
    shown = panels_html(plans.refused(), opened=PANELS)

    assert not any(html for key, html in shown.items() if key != "panel-notes")


def test_each_line_opens_to_meaning_arithmetic_and_source() -> None:
    """With the plan's own numbers, and vLLM's file and symbol."""
    plan = plans.fitting()
    rank = plan.limiting_rank
    shown = lines_table(plan, rank) + outside_table(plan)

    for line in (*rank.lines, *rank.outside):
        facts = LINE_FACTS[line.name]
        assert facts.meaning in text(shown)
        assert re.sub(r"\s+", " ", line.why) in text(shown)
        assert facts.symbol in shown
        assert facts.address in shown


@pytest.mark.parametrize("name", LINE_FACTS)
def test_a_line_that_names_a_source_names_file_and_symbol(name) -> None:
    """A Python file below vLLM's package."""
    facts = LINE_FACTS[name]

    assert facts.file.endswith(".py")
    assert facts.symbol.isidentifier()
    assert facts.address.endswith(f"/v{NEWEST}/vllm/{facts.file}")


def test_the_kv_cache_panel_shows_how_blocks_and_requests_follow() -> None:
    """2 x 8 heads x 128 x 2 bytes x 16 tokens = 64 KiB; x 32 layers = 2 MiB a block."""
    shown = text(kv_cache_html(plans.fitting()))

    assert 2 * 8 * 128 * 2 * 16 == 64 * KIB
    assert 32 * 64 * KIB == 2 * MIB
    assert "FullAttentionSpec 1 32 16 64.0 KiB" in shown
    assert "54.84 GiB / 2.0 MiB per block = 28,076 blocks" in shown
    assert "one request of 131,072 tokens takes 8,192 blocks = 16.00 GiB" in shown


def test_what_a_request_costs_is_planned_for_each_length() -> None:
    """128 KiB a token for Llama-3.1-8B: 1,024 tokens 128 MiB, 131,072 tokens 16 GiB."""
    assert costs(plans.fitting()) == [
        (1_024, 128 * MIB),
        (8_192, GIB),
        (32_768, 4 * GIB),
        (131_072, 16 * GIB),
    ]


def test_windows_make_long_requests_cheaper_than_in_proportion() -> None:
    """Five of six layers of Gemma 3 look back 1,024 tokens only."""
    plan = planner.plan("google/gemma-3-27b-it", gpu="H200", tensor_parallel_size=2)
    by_length = dict(costs(plan))

    assert by_length[131_072] < 16 * by_length[8_192] / 2


def test_layers_that_are_grouped_alike_share_a_row() -> None:
    """Gemma 3: four groups of nine windowed layers, two of eight, one full."""
    plan = planner.plan("google/gemma-3-27b-it", gpu="H200", tensor_parallel_size=2)
    shown = text(kv_cache_html(plan))

    assert "SlidingWindowSpec 4 9 16" in shown
    assert "SlidingWindowSpec 2 8 16" in shown
    assert "FullAttentionSpec 1 10 16" in shown


def test_a_model_without_kv_cache_says_so() -> None:
    """A plan that was refused keeps none."""
    assert "allocates no KV cache" in kv_cache_html(plans.refused())


def test_a_source_names_the_release_that_was_planned() -> None:
    """Where the newest has a rule is said beside it: the files are that release's."""
    older = plans.fitting().changed(vllm_version="0.12.0")
    assert older.limiting_rank is not None
    sources = re.findall(
        r"class='pl-source'>(.*?)</p>",
        lines_table(older, older.limiting_rank)
        + outside_table(older)
        + kv_cache_html(older),
    )

    said = [text(source).strip() for source in sources]
    assert len(said) > len(older.limiting_rank.lines)
    assert all(source.startswith("Source: vLLM 0.12.0 ") for source in said)
    worker = "v1/worker/gpu_worker.py , init_device"
    assert f"Source: vLLM 0.12.0 (0.33.0 has it in {worker} )" in said


def test_a_plan_on_a_processor_cites_the_code_of_the_processor() -> None:
    """Not the GPU's worker, runner or memory profile; a GPU's plan cites those."""
    small = checkpoint(5)
    shown = lines_table(small, small.limiting_rank)
    desk = checkpoint(1)

    assert all(f"{facts.file}</a>" in shown for facts in CPU_FACTS.values())
    assert "v1/worker/gpu_worker.py" not in shown
    assert "mem_utils.py" not in shown
    assert "cpu_worker.py" not in lines_table(desk, desk.limiting_rank)


def test_non_torch_memory_is_said_to_begin_after_the_driver() -> None:
    """The context is taken before vLLM's first measurement; it has its own line."""
    desk = checkpoint(1)

    assert "context was there before" in lines_table(desk, desk.limiting_rank)
    assert "CUDA context" in [line.name for line in desk.limiting_rank.outside]
