"""What the planner does otherwise where a web page holds its Python."""

from __future__ import annotations

import json
import re
import sys
import threading

import pytest

import planner
from benchmarks import lite as benchmark
from benchmarks.app import figures
from planner import learn
from planner.app.widgets import background, results, run_panel
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.results import RunSection
from planner.app.widgets.run_panel import RunPanel
from planner.confirming import installation
from planner.engine.devices import attached
from planner.errors import PlannerError
from planner.learn.account import recorded
from planner.models.sources import hub_errors
from planner.planning.inputs import Inputs
from planner.show import frames
from planner.show.charts import frame
from planner.show.charts.frame import Drawn
from planner.surroundings import is_in_browser
from tests import plans
from tools import lite_app, lite_packages


@pytest.fixture
def in_browser(monkeypatch) -> None:
    """As in a web page, for those who ask."""
    for asking in (
        *(attached, frame, frames, hub_errors, installation, background),
        *(run_panel, results),
    ):
        monkeypatch.setattr(asking, "is_in_browser", lambda: True)


def test_a_web_page_is_told_by_python_s_platform(monkeypatch) -> None:
    """Pyodide's name for it."""
    here = is_in_browser()
    monkeypatch.setattr("sys.platform", "emscripten")

    assert not here
    assert is_in_browser()


@pytest.mark.usefixtures("in_browser")
def test_the_run_panel_shows_a_start_that_was_recorded() -> None:
    """With its label, and nothing to press."""
    panel = RunPanel(plans.fitting())

    hidden = (panel.run_button, panel.ask_button, panel.stop_button, panel.options)
    assert ["none"] * 4 == [part.layout.display for part in hidden]
    assert "Nothing can be started" in panel.what.value
    assert recorded().date in panel.installation.value
    assert 5 == len(panel.result.children)


@pytest.mark.usefixtures("in_browser")
def test_another_plan_leaves_the_recorded_start_there() -> None:
    """Nobody looks for a vLLM."""
    panel = RunPanel(plans.fitting())
    before = panel.installation.value, panel.result.children
    panel.plan = plans.too_long()

    assert before == (panel.installation.value, panel.result.children)
    assert panel._reader._thread is None


@pytest.mark.usefixtures("in_browser")
def test_the_explorer_asks_no_vllm_where_it_has_no_plan() -> None:
    """A line for a machine with vLLM, and no button."""
    results = Explorer().results
    results.offer(Inputs(model="nobody/new-model", gpu="L4"))

    assert results.asking.rows == []
    assert results.asking.note.endswith("planner dry-run nobody/new-model --gpu L4")


@pytest.mark.usefixtures("in_browser")
def test_the_explorer_s_button_promises_no_start() -> None:
    """It opens the same panel."""
    section = RunSection()
    section.turn(True)

    assert "recorded" in section.title
    assert section.panel is not None
    assert "none" == section.panel.run_button.layout.display


@pytest.mark.usefixtures("in_browser")
def test_a_model_is_read_without_a_thread() -> None:
    """There are none: the answer, or the failure, is there when `start` returns."""
    threads: list[threading.Thread] = []
    failures: list[Exception] = []
    made = background.Reader()
    made.start(
        lambda: threads.append(threading.current_thread()),
        lambda _answer: None,
        failures.append,
    )
    made.start(lambda: 1 // 0, lambda _answer: None, failures.append)

    assert [threading.current_thread()] == threads
    assert [ZeroDivisionError] == [type(failure) for failure in failures]


@pytest.mark.usefixtures("in_browser")
@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: planner.plan("Qwen/Qwen3-8B", gpu="attached"), "no GPU to Python"),
        (
            lambda: planner.plan("some/model", gpu="L4"),
            "Upload the model's config.json",
        ),
        (lambda: plans.fitting().to_frame(), "the browser edition does not have"),
        (lambda: planner.confirm(plans.fitting()), "learn.recorded()"),
    ],
)
def test_what_a_browser_cannot_do_is_said_with_what_it_can(
    ask, said, monkeypatch
) -> None:
    """In place of packages to install, which would not help there."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(PlannerError) as refused:
        ask()

    assert said in str(refused.value)
    assert "pip install" not in str(refused.value)


@pytest.mark.usefixtures("in_browser")
def test_a_figure_without_plotly_is_the_same_chart() -> None:
    """In plotly's JSON, shown by the widget that draws the explorer's."""
    plan = plans.fitting()
    drawn = plan.figure()
    shown = drawn._repr_mimebundle_()

    assert isinstance(drawn, Drawn)
    assert "weights" in drawn.label
    assert "application/vnd.jupyter.widget-view+json" in str(shown)
    assert "bar" == drawn.to_plotly_json()["data"][0]["type"]


def test_a_figure_is_described_alike_with_plotly_and_without(monkeypatch) -> None:
    """Legend, height and traces of every kind of chart."""
    plan = plans.fitting()
    grid = planner.sweep(plan, over={"max_model_len": [4096, 8192]})
    both = planner.compare(plan, plan.changed(max_num_seqs=64))
    figures = [plan.figure, both.figure, grid.curve, grid.heat_map]
    with_plotly = [figure().to_plotly_json()["layout"] for figure in figures]
    monkeypatch.setattr(frame, "is_in_browser", lambda: True)
    without = [figure().to_plotly_json()["layout"] for figure in figures]

    for one, other in zip(with_plotly, without, strict=True):
        assert one["showlegend"] is other["showlegend"]
        assert one["legend"] == other["legend"]
        assert one["height"] == other["height"]


def test_the_lines_of_a_plan_are_a_table_without_pandas() -> None:
    """Each with its size, its basis and its arithmetic."""
    plan = learn.checkpoint(1)
    shown = learn.lines(plan)
    rank = plan.limiting_rank

    assert rank is not None
    assert len(rank.lines) == len(str(shown).splitlines())
    assert rank.line("KV cache").why in str(shown)
    assert len(rank.lines) == shown._repr_html_().count("<th scope='row'>")


def test_what_the_site_takes_is_written_into_the_kit(tmp_path) -> None:
    """Each figure with its limit; what breaks it is marked."""
    page = tmp_path / "page.md"
    page.write_text(benchmark.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    measured = [
        benchmark._figure(benchmark.KINDS[0], 3.0),
        benchmark._figure(benchmark.KINDS[2], 6.5),
        benchmark._figure(benchmark.MEMORY, 450.0),
    ]
    figures.write("lite", benchmark.table(measured), page)
    written = page.read_text(encoding="utf-8")

    assert f"| {benchmark.KINDS[0]} | 10.00 s | 3.00 s |" in written
    assert f"| {benchmark.KINDS[2]} | 6.00 s | 6.50 s ✘ |" in written
    assert f"| {benchmark.MEMORY} | 600 MB | 450 MB |" in written


def test_the_app_s_page_has_the_first_plan_and_the_lessons(tmp_path) -> None:
    """As plain HTML in a script that no text of it can end; links without a host."""
    lessons = [("lab/index.html?path=workshop/1.ipynb", "1. Tokens & weights")]
    written = lite_app._page(tmp_path, lessons)
    (first,) = re.findall(
        r'<script type="application/vnd.voila.cell-output\+json">(.*?)</script>',
        written,
        re.DOTALL,
    )

    assert "planner-snapshot" in json.loads(first)["data"]["text/html"]
    assert ">1. Tokens &amp; weights</a>" in written
    assert 'id="planner-plotly"' in written
    assert "docs/index.html" not in written
    assert "https://" not in re.sub(r"<script type.*?</script>", "", written)


def test_the_app_s_python_is_given_what_it_imports() -> None:
    """Names of packages that the site holds, and of those nothing of a notebook."""
    told = lite_packages.WHEELS.read_text(encoding="utf-8").replace("_", "-")
    held = set(re.findall(r"^([\w-]+)==", told, re.MULTILINE))

    assert {*lite_app.PACKAGES} <= held | {"vllm-memory-planner"}
    assert "ipython" not in lite_app.PACKAGES


def test_what_is_missing_to_build_the_site_is_said(monkeypatch) -> None:
    """Which program, and what installs it."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="make lite needs npm") as refused:
        lite_packages.program("npm")

    assert "apt-get install nodejs npm" in str(refused.value)
