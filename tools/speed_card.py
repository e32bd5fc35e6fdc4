"""The report card of the forecast of speed, and its parameters, for docs/speed.md."""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.fit_speed import LeftOut, Parameter, Sample

FIGURES = ("next_token", "total", "first_token")
CLASSES = (
    "all",
    "one request",
    "moderate",
    "saturated",
    "HBM memory",
    "GDDR memory",
    "unified memory",
    "weights in 16 bits",
    "weights in 8 bits",
    "weights in 4 bits",
    "one GPU",
    "several GPUs",
    "routed experts",
)
"""The rows of the report card."""


def card(
    within: Sequence[LeftOut],
    left_out: Sequence[LeftOut],
) -> str:
    """Write the errors by class: of the fit, and of sources that were left out."""
    lines = [
        "| measurements of | number | sources | next token | total | first token |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title in CLASSES:
        of = [sample for sample, _ in within if title in classes_of(sample)]
        cells = [title, f"{len(of)}", f"{len({one.source for one in of})}"]
        for name in FIGURES:
            pair = (_median(name, title, part) for part in (within, left_out))
            cells.append(" / ".join(pair))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def classes_of(sample: Sample) -> set[str]:
    """Return the rows of the report card in which a measurement counts."""
    kind = sample.point.kind
    found = {
        "all",
        sample.regime,
        f"{kind.memory} memory",
        f"weights in {kind.weights}",
    }
    found.add("one GPU" if kind.gpus == "one" else "several GPUs")
    return found | ({"routed experts"} if sample.point.has_experts else set())


def _median(name: str, title: str, of: Iterable[LeftOut]) -> str:
    """Write the median error of a figure in percent of what was measured."""
    off = [
        abs(math.exp(-error[name]) - 1)
        for sample, error in of
        if title in classes_of(sample) and name in error
    ]
    return f"{100 * statistics.median(off):.0f} %" if off else "-"


def parameter_table(parameters: Iterable[Parameter], values: dict[str, float]) -> str:
    """Write the parameters with their units."""
    lines = ["| parameter | value | what |", "| --- | ---: | --- |"]
    for one in parameters:
        value = values[one.name]
        text = f"{1e6 * value:,.0f} µs" if one.unit == "s" else f"{value:.2f}"
        lines.append(f"| `{one.name}` | {text} | {one.what} |")
    return "\n".join(lines)


def replace_part(page: pathlib.Path, name: str, text: str) -> None:
    """Write a part of a page between the comments that mark it."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
