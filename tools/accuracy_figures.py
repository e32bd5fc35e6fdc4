"""The report's figures: plotly draws them, Chromium turns them into SVG."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs

from tools.compared import Row

OURS, RIVAL, RANGE = "#0072B2", "#D55E00", "#9ECAE1"
WIDTH, HEIGHT = 900, 420
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]


def draw(rows: Sequence[Row], folder: pathlib.Path) -> None:
    """Write both figures as SVG."""
    figures = {"releases": by_release(rows), "ranges": ranges(rows)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS
        )
        page = browser.new_page()
        page.set_content("<div id='figure'></div>")
        page.add_script_tag(content=get_plotlyjs())
        for name, figure in figures.items():
            svg = page.evaluate(
                """async ([spec, width, height]) => {
                    const drawn = await Plotly.newPlot('figure', JSON.parse(spec));
                    return Plotly.toImage(drawn, {
                        format: 'svg', width, height, imageDataOnly: true});
                }""",
                [figure.to_json(), WIDTH, HEIGHT],
            )
            (folder / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        browser.close()


def by_release(rows: Sequence[Row]) -> go.Figure:
    """Errors of every start by release, and those of a flat reserve."""
    figure = go.Figure()
    series = (
        ("flat reserve of 2.5 GiB", RIVAL, "x", "rival_gib"),
        ("planner", OURS, "circle", "planned_gib"),
    )
    for name, colour, symbol, field in series:
        known = [row for row in rows if getattr(row, field) is not None]
        figure.add_scatter(
            x=[row.release for row in known],
            y=[getattr(row, field) - row.measured_gib for row in known],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 8, "opacity": 0.65},
        )
    figure.add_hline(y=0, line_color="#888888")
    figure.update_xaxes(type="category", title="vLLM release")
    return _styled(figure, "KV cache, planned less measured, GiB")


def ranges(rows: Sequence[Row]) -> go.Figure:
    """The stated range of every start around the measured figure."""
    ordered = sorted(rows, key=lambda row: row.error_gib)
    places = list(range(1, len(ordered) + 1))
    figure = go.Figure()
    figure.add_bar(
        x=places,
        base=[row.low_gib - row.measured_gib for row in ordered],
        y=[row.high_gib - row.low_gib for row in ordered],
        name="stated range",
        marker={"color": RANGE, "line": {"width": 0}},
        width=0.9,
    )
    figure.add_scatter(
        x=places,
        y=[row.error_gib for row in ordered],
        mode="markers",
        name="planned",
        marker={"color": OURS, "size": 4},
    )
    figure.add_hline(y=0, line_color="#222222", annotation_text="measured")
    figure.update_xaxes(title="published starts, by error")
    return _styled(figure, "KV cache less measured, GiB")


def _styled(figure: go.Figure, axis: str) -> go.Figure:
    figure.update_yaxes(title=axis, zeroline=False)
    figure.update_layout(
        template="plotly_white",
        font={"size": 13},
        legend={"orientation": "h", "y": 1.12},
        margin={"l": 60, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="white",
    )
    return figure
