"""Comparisons, sweeps, GPUs, advice and bounds in Chromium: tables pass."""

import json
from functools import cache

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner.app.widgets.static_files import for_page
from planner.solve.comparing import context_against_concurrency
from tests import plans
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser

MODEL = "Qwen/Qwen3-8B"
THEMES = {"light": ("#1b1b1b", "#ffffff"), "dark": ("#e6e6e6", "#111111")}
"""Ink and paper."""


PIECES = ("plans", "grid", "one axis", "GPUs", "advice", "speed")


@cache
def pieces() -> dict[str, object]:
    """One of each thing that shows itself."""
    plan = planner.plan(MODEL, gpu="H100")
    over = {"max_model_len": [2048, 65_536], "kv_cache_dtype": ["auto", "fp8", "x"]}
    return {
        "plans": planner.compare(*(made() for made in plans.ALL)),
        "grid": planner.sweep(plan, over=over),
        "one axis": planner.sweep(plan, over={"gpu": ["L4", "H100"]}),
        "GPUs": planner.compare_gpus(plan, ["L4", "H100", "T4"], {"L4": 1}),
        "advice": planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100")),
        "speed": planner.speed_bound(
            plan, planner.Load(prompt_tokens=100, output_tokens=10)
        ),
    }


def charts() -> dict[str, object]:
    """The charts, and how many marks each must have."""
    shown = pieces()
    return {
        "plans": shown["plans"].figure(),
        "heat map": shown["grid"].heat_map(),
        "GPUs": shown["GPUs"].figure(),
        "curve": context_against_concurrency(plans.fitting()).figure(),
    }


def document(ink: str, paper: str, body: str) -> str:
    """A bare page in a theme."""
    return (
        "<!doctype html><html lang='en'><title>t</title>"
        f"<body style='background:{paper};color:{ink}'>"
        f"<main style='container-type:inline-size'><h1>t</h1>{body}</main>"
    )


@pytest.mark.parametrize(("theme", "width"), LOOKS)
@pytest.mark.parametrize("name", PIECES)
def test_tables_pass_axe_core_and_stay_inside_the_page(
    browser, name, theme, width
) -> None:
    """In both themes, on a telephone and on a desk."""
    page = browser.new_page(viewport={"width": width, "height": 700})
    page.set_content(
        document(*THEMES[theme], pieces()[name]._repr_mimebundle_()["text/html"])
    )

    assert [] == violations(page, "main")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["plans", "heat map", "GPUs", "curve"])
def test_charts_draw_with_the_plotly_that_the_app_serves(browser, name, width) -> None:
    """The bundle that sets up bars and lines only."""
    spec = json.loads(charts()[name].to_json())
    page = browser.new_page(viewport={"width": width, "height": 700})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(document(*THEMES["light"], "<div id='chart'></div>"))
    page.add_script_tag(content=for_page().decode())
    page.evaluate(
        "spec => Plotly.newPlot('chart', spec.data, spec.layout, {responsive: true})",
        spec,
    )
    page.wait_for_selector("#chart .bars path, #chart .lines path")
    marks = page.locator("#chart .point path, #chart path.point").count()
    drawn = sum(len(trace["x"]) for trace in spec["data"] if trace["type"] == "bar")

    assert [] == errors
    assert marks >= (drawn if name in ("heat map", "GPUs") else 10)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
