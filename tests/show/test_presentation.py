"""A plan as text and HTML."""

from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

import planner
from planner.show import tables, verdict
from planner.show.charts.parts import spoken
from planner.show.figures import key_figures
from planner.show.frames import plan_frame
from planner.show.page import plan_html
from planner.show.verdict import VerdictState, missing_bytes, state_of
from planner.show.verdict import verdict as verdict_of
from planner.units import format_gib
from tests import plans

VOID = {"br", "meta", "link", "input"}


class Balance(HTMLParser):
    """Counts open tags; every one must be closed by its own end tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:  # noqa: ARG002 - the parser's own
        """Note an open tag."""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        """Check that it closes the tag opened last."""
        assert tag == self.open.pop()


@pytest.mark.parametrize(
    ("plan", "state", "symbol"),
    [
        (plans.fitting, VerdictState.FITS, "✔"),
        (plans.too_long, VerdictState.SHORT, "✘"),
        (plans.too_large, VerdictState.SHORT, "✘"),
        (plans.refused, VerdictState.REFUSED, "✘"),
    ],
)
def test_the_verdict_is_a_symbol_and_words(plan, state, symbol) -> None:
    """Never colour alone."""
    said = verdict_of(plan())

    assert state == said.state
    assert symbol == said.symbol
    assert said.headline


def test_what_is_left_has_a_plus_and_what_is_missing_is_said_in_words() -> None:
    """No minus before what is missing: the sentence says that it is."""
    assert verdict_of(plans.fitting()).margin.startswith("+")
    short = verdict_of(plans.too_long())
    assert short.margin[0].isdigit()
    assert short.sentence.startswith("of KV cache missing")


def test_a_refused_plan_has_no_margin() -> None:
    """vLLM never gets as far as memory."""
    said = verdict_of(plans.refused())

    assert said.margin == ""
    assert said.sentence == "vLLM stops before it loads anything."


def test_memory_is_missing_exactly_where_the_margin_is_negative() -> None:
    """What the chart draws beyond the line is what the verdict says."""
    short = plans.too_long()
    fits = plans.fitting()

    assert -short.margin_bytes == missing_bytes(short, short.limiting_rank)
    assert missing_bytes(fits, fits.limiting_rank) == 0


def test_a_plan_that_fits_only_at_the_middle_of_its_range_is_tight() -> None:
    """Between the low end and the figure itself."""
    low = plans.too_long().limiting_rank.available_kv_cache_low_bytes
    figure = plans.too_long().limiting_rank.available_kv_cache_bytes
    tokens = (low + figure) // 2 // (2 * 32 * 8 * 128 * 2)
    tight = planner.plan(plans.LLAMA_8B, gpu="L4", max_model_len=tokens)

    assert state_of(tight) == VerdictState.TIGHT
    assert verdict_of(tight).headline == "Too close to call"


@pytest.mark.parametrize("plan", plans.ALL)
def test_the_text_holds_the_verdict_every_line_and_the_command(plan) -> None:
    """str(plan), whose lines are folded for a width."""
    written = " ".join(str(plan()).split())

    assert verdict.verdict_text(plan()) in written
    assert plan().command() in written
    for rank in plan().ranks:
        for line in rank.lines:
            assert format_gib(line.size_bytes) in written
            assert " ".join(line.why.split()) in written


@pytest.mark.parametrize("plan", [plans.too_long, plans.too_large, plans.refused])
def test_vllms_own_error_is_quoted(plan) -> None:
    """In the text and in the HTML."""
    assert plan().error.message in str(plan())
    assert "vLLM would say" in plan_html(plan())


@pytest.mark.parametrize("plan", plans.ALL)
def test_the_html_is_well_formed_and_self_contained(plan) -> None:
    """No script, no address, every tag closed."""
    page = plan_html(plan())
    balance = Balance()
    balance.feed(page)

    assert balance.open == []
    assert "<script" not in page
    assert "src=" not in page
    assert "url(" not in page


def test_the_page_says_what_the_user_typed_without_running_it() -> None:
    """A model's name is text, whatever it holds."""
    page = plan_html(replace(plans.fitting(), name="<img src=x onerror=alert(1)>"))

    assert "<img" not in page
    assert "&lt;img" in page


def test_the_table_shows_size_range_basis_and_arithmetic_of_each_line() -> None:
    """The twin of the chart."""
    shown = tables.tables_html(plans.fitting()) + tables.outside_html(plans.fitting())
    (rank,) = plans.fitting().ranks

    lines = (*rank.lines, *rank.outside)
    assert shown.count("<th scope='row'>") == len(lines)
    for line in lines:
        assert f"<td class='pl-number'>{format_gib(line.size_bytes)}</td>" in shown
        assert f"<td class='pl-basis'>{line.basis}</td>" in shown


def test_each_pipeline_stage_has_a_table_and_the_limiting_one_is_open() -> None:
    """The others wait behind a summary."""
    shown = tables.tables_html(plans.in_stages())

    assert shown.count("<table class='pl-lines'><caption>Each GPU") == 2
    assert shown.count("<summary>Each GPU") == 1
    assert shown.index("(limits the plan)") < shown.index("<details")


def test_what_lies_beside_the_budget_waits_behind_a_summary() -> None:
    """6.34 GiB are left of an H100 at 0.92."""
    shown = tables.outside_html(plans.fitting())
    assert "Outside vLLM's budget: " in unescape(shown)
    assert " of 6.34 GiB</summary>" in shown
    assert "CUDA context" in shown
    assert tables.outside_html(plans.refused()) == ""


def test_the_spoken_picture_reads_every_value() -> None:
    """What a screen reader gets in place of the chart."""
    said = spoken(plans.fitting())

    for line in plans.fitting().limiting_rank.lines:
        assert f"{line.name} {format_gib(line.size_bytes)}" in said
    assert "Fits" in said


def test_the_key_figures_are_vllms_log_line() -> None:
    """KV cache, tokens, concurrency, length; none of them when vLLM refuses."""
    plan = plans.fitting()

    names = [figure.name for figure in key_figures(plan)]
    assert names[1:3] == ["GPU KV cache size", "Maximum concurrency"]
    assert key_figures(plan)[1].text == f"{plan.kv_cache_size_tokens:,}"
    assert key_figures(plans.refused()) == ()


def test_the_frame_has_one_row_per_line_and_stage() -> None:
    """Bytes are whole; GiB stand beside them."""
    plan = plans.in_stages()
    frame = plan_frame(plan)

    assert len(frame) == sum(len(rank.lines) for rank in plan.ranks)
    for rank in plan.ranks:
        rows = frame[frame["pp_rank"] == rank.pp_rank]
        assert rows["size_bytes"].sum() == rank.requested_memory_bytes


def test_a_frame_leaves_no_head_empty() -> None:
    """pandas writes the name of the columns over its row numbers."""
    html = plan_frame(plans.fitting()).to_html()

    assert "<th>column</th>" in html
    assert "<th></th>" not in html


def test_a_notebook_is_offered_text_and_html() -> None:
    """The HTML holds verdict, bars and table together."""
    offered = plans.fitting()._repr_mimebundle_()

    assert set(offered) == {"text/plain", "text/html"}
    assert offered["text/plain"] == str(plans.fitting())
