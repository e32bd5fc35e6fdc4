"""The best alternative: the same form and chart in Streamlit, in the same browser."""

from __future__ import annotations

from argparse import Namespace
from statistics import median

from benchmarks.app import browsing, served
from benchmarks.app.figures import MB, Figure
from benchmarks.app.figures import steps as step_figures
from benchmarks.app.many import SESSION
from benchmarks.app.pages import FIRST_CHART, STEP

BARS = ".js-plotly-plot .barlayer .point path"
_SESSIONS = 8


def alternative(options: Namespace) -> list[Figure]:
    """Measure what both have; nothing where Streamlit is not installed."""
    if not options.streamlit:
        return []
    with (
        served.alternative(options.streamlit) as address,
        browsing.chromium() as browser,
    ):
        first = [_first_chart(browser, address) for _ in range(5)]
        page = browsing.new_context(browser).new_page()
        page.goto(address)
        page.evaluate(browsing.first_chart(BARS))
        times = browsing.slider_steps(page, bars=BARS)
        before = served.family(address).pss_bytes
        for _ in range(_SESSIONS):
            one = browsing.new_context(browser).new_page()
            one.goto(address)
            one.evaluate(browsing.first_chart(BARS))
            browsing.slider_steps(one, 2, BARS)
        after = served.family(address).pss_bytes
    found = [
        *step_figures(STEP, times),
        Figure(name=FIRST_CHART, value=median(first), unit="s"),
        Figure(name=SESSION, value=(after - before) / MB / _SESSIONS, unit="MB"),
        Figure(name="server without kernels", value=after / MB, unit="MB"),
    ]
    return [figure.of_alternative() for figure in found]


def _first_chart(browser: browsing.Browser, address: str) -> float:
    context = browsing.new_context(browser)
    page = context.new_page()
    page.goto(address, wait_until="commit")
    seconds = float(page.evaluate(browsing.first_chart(BARS))) / 1000
    context.close()
    return seconds
