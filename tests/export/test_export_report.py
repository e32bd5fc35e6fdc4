"""Reports: whole, the same each time, and safe to open."""

from __future__ import annotations

import csv as csv_format
import json as json_format
from html.parser import HTMLParser
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import planner
from planner import Inputs
from planner.engine.releases import NEWEST
from planner.export import csv, html, json, markdown
from planner.units import format_gib
from tests import plans

MODEL = "Qwen/Qwen3-8B"
HOSTILE = '"><script>alert(1)</script>|`*_[x](javascript:alert(1))\u202e'
SPACES = str.maketrans("\t\r\n", "   ")
VOID = {"meta", "br", "img", "input", "hr", "link"}


class Page(HTMLParser):
    """Reads a page: its tags, its text, and that each tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("make", plans.ALL)
@pytest.mark.parametrize("write", [html, markdown])
def test_a_report_holds_what_a_reader_needs(make, write):
    """Subject, verdict, vLLM's words, lines, figures, command, release."""
    plan = make()
    text = write(plan)
    shown = Page(text).text if write is html else plain(text)

    assert plan.name in shown
    assert f"vLLM {plan.vllm_version}" in shown
    assert plan.command() in shown
    assert "from vllm import LLM" in shown
    assert f"image: vllm/vllm-openai:v{NEWEST}" in shown
    for rank in plan.ranks:
        for line in rank.lines:
            assert format_gib(line.size_bytes) in shown
            assert " ".join(line.why.split()) in shown
    for note in plan.notes:
        assert note in shown
    if plan.error is not None:
        for line in plan.error.message.splitlines():
            assert " ".join(line.split()) in shown
    for group in plan.kv_groups:
        assert group.kind in shown


def plain(text: str) -> str:
    """Return the text that a reader of Markdown sees."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return "\n".join(
        child.content
        for token in tokens
        for child in (token.children or [token])
        if child.content
    )


@pytest.mark.parametrize("write", [html, markdown, json, csv])
def test_a_report_is_the_same_each_time(write):
    """No date, no order by chance."""
    assert write(plans.in_stages()) == write(plans.in_stages())


def test_a_date_is_written_when_given():
    """By who knows which day it is."""
    for write in (html, markdown):
        assert "2026-01-31" not in write(plans.fitting())
        assert "2026-01-31" in write(plans.fitting(), date="2026-01-31")


def test_the_page_is_a_page_of_its_own():
    """Language, title, one main heading, sections in order, and no request."""
    page = Page(html(plans.in_stages()))

    assert [] == page.open
    assert [{"lang": "en"}] == page.named("html")
    assert 1 == len(page.named("title")) == len(page.named("main"))
    assert 1 == len(page.named("h1"))
    for tag in ("script", "link", "img", "iframe", "object", "form", "base"):
        assert [] == page.named(tag)
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "srcset", "action"} & set(attributes)
    assert "url(" not in html(plans.in_stages())
    assert "@import" not in html(plans.in_stages())
    headings = [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert "h1" == headings[0]
    assert {"h2", "h3"} == set(headings[1:])


def test_an_address_becomes_a_link_to_follow_and_no_other_does():
    """javascript: is no address of a page."""
    page = Page(html(plans.fitting(), base="http://127.0.0.1:8866/"))
    (link,) = _own_links(page)

    assert str(link["href"]).startswith("http://127.0.0.1:8866/?model=meta-llama/")
    hostile = Page(html(plans.fitting(), base="javascript:alert(1)//"))
    assert [] == _own_links(hostile)


def _own_links(page: Page) -> list[dict[str, str | None]]:
    """Leave out the links to vLLM's sources."""
    return [
        link
        for link in page.named("a")
        if not str(link["href"]).startswith("https://github.com/vllm-project/vllm/")
    ]


def test_markup_in_a_value_stays_text():
    """Names of models and arguments come from anywhere."""
    plan = planner.plan(MODEL, served_model_name=HOSTILE, revision=HOSTILE)
    page = Page(html(plan, date=HOSTILE))
    rendered = (
        MarkdownIt("commonmark").enable("table").render(markdown(plan, date=HOSTILE))
    )

    assert [] == page.named("script")
    assert [] == page.open
    assert "<script" not in rendered
    assert "javascript:" not in "".join(
        part for part in rendered.split('"') if part.startswith("javascript")
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_leaves_the_page_whole(value):
    """Whatever a value holds, tags are closed and none is added."""
    plan = planner.plan(MODEL, served_model_name=value)
    page, usual = (
        Page(html(plan)),
        Page(html(planner.plan(MODEL, served_model_name="a"))),
    )

    assert [] == page.open
    assert [tag for tag, _ in usual.tags] == [tag for tag, _ in page.tags]


def test_a_report_says_why_it_has_no_code_or_link(tiny_folder):
    """Several engines are no LLM(...), a folder is no link."""
    several = planner.plan(MODEL, data_parallel_size=2)
    here = planner.plan(tiny_folder)

    for write in (html, markdown):
        assert "one engine only" in write(several)
        assert "cannot hold the model" in write(here)


def test_no_report_holds_a_token():
    """Reports are mailed and posted."""
    plan = planner.plan(
        MODEL, hf_token="hf_x1", env={"HF_TOKEN": "hf_x2", "MY_KEY": "hf_x3"}
    )

    for write in (html, markdown, json, csv):
        assert "hf_x" not in write(plan)


def test_json_is_the_plan_and_what_it_was_made_from():
    """The contract's shape, and inputs from which it can be planned again."""
    plan = planner.plan(MODEL, gpu="L4", max_model_len=4096, kv_cache_dtype="fp8")
    whole = json_format.loads(json(plan))
    inputs = whole.pop("inputs")
    again = Inputs(
        model=inputs["model"],
        gpu=inputs["gpu"]["name"],
        vllm_version=inputs["vllm_version"],
        entrypoint=inputs["entrypoint"],
        engine_args=inputs["engine_args"],
    )

    assert json_format.loads(json_format.dumps(plan.to_dict())) == whole
    assert plan == again.plan()


def test_csv_has_a_row_for_each_line_of_each_rank():
    """Sizes are whole bytes, so that sums are exact."""
    plan = plans.in_stages()
    rows = list(csv_format.DictReader(StringIO(csv(plan))))
    budget = [row for row in rows if row["place"] == "budget"]

    assert [
        (str(rank.pp_rank), line.name, str(line.size_bytes), str(line.basis))
        for rank in plan.ranks
        for line in rank.lines
    ] == [(row["pp_rank"], row["line"], row["bytes"], row["basis"]) for row in budget]
    assert sum(rank.requested_memory_bytes for rank in plan.ranks) == sum(
        int(row["bytes"]) for row in budget
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "\r@", "\n+"])
def test_no_cell_is_a_formula(start, tiny_folder):
    """A spreadsheet would run a name that begins like one."""
    gpu = planner.GPU.named("H100", name=f"{start}HYPERLINK(1)")
    rows = csv_format.DictReader(StringIO(csv(planner.plan(tiny_folder, gpu=gpu))))

    for row in rows:
        assert f"'{start}HYPERLINK(1)".translate(SPACES) == row["gpu"]


OLDER = {"gpu": "RTX3090", "vllm_version": "0.19.1", "max_model_len": 8192}


@pytest.mark.parametrize("write", [markdown, html])
def test_a_report_of_an_older_release_says_what_an_upgrade_does(write) -> None:
    """The sentence, each rule with its release, and what brings the old one back."""
    plan = planner.plan("Qwen/Qwen3-8B", **OLDER)
    report = write(plan)
    found = planner.upgrade(plan)
    assert found.ways
    assert f"Upgrade to vLLM {NEWEST}" in report
    for release, cause in found.causes:
        assert cause.rule is not None
        assert release in report
    assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS" in report.replace("\\_", "_")


@pytest.mark.parametrize("write", [markdown, html])
def test_a_report_of_the_newest_release_has_no_upgrade(write) -> None:
    """There is none to say."""
    plan = planner.plan("Qwen/Qwen3-8B", **{**OLDER, "vllm_version": NEWEST})
    assert "Upgrade to" not in write(plan)


def test_a_line_far_over_its_budget_has_a_whole_bar() -> None:
    """A budget of a billionth: the bar of the weights would have gigabytes."""
    plan = planner.plan(MODEL, gpu="L4", gpu_memory_utilization=1e-9)
    assert len(markdown(plan)) < 10_000


def test_a_plan_with_a_load_reports_how_fast_it_is() -> None:
    """The figures of the forecast with their ranges and bounds, in both forms."""
    load = planner.Load(prompt_tokens=3000, output_tokens=500, requests=20)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", load=load)
    found = planner.speed_forecast(plan, load)
    total = f"{found.total_tokens_per_second.value:,.0f}"

    for report in (planner.export.markdown(plan), planner.export.html(plan)):
        assert "Tokens per second in total" in report
        assert total in report
        assert found.near.words in report
    without = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    assert "Speed" not in planner.export.markdown(without)
