"""Draw the picture of docs/memory-model.md: a card, and its small parts enlarged.

It has a ground of its own, so that it reads the same on light and dark pages, and no
text smaller than a phone can show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from planner.planning.result import Plan
from planner.show.palette import swatch
from planner.units import format_gib

NOT_ASKED = "not requested"
_LARGE = ("weights", "KV cache")
_WIDTH, _MARGIN, _BAR, _ROW = 480, 16, 34, 20
_BETWEEN = "between them"
_FREE = "free, for what no account knows"
_FILLS = {
    _BETWEEN: "#1a1a1a",
    NOT_ASKED: "url(#h)",
    _FREE: "url(#h)",
    "CUDA context": "#767676",
    "block tables": "#dddddd",
}
_HATCH = (
    "<defs><pattern id='h' width='6' height='6' patternUnits='userSpaceOnUse' "
    "patternTransform='rotate(45)'><rect width='6' height='6' fill='#ffffff'/>"
    "<rect width='2' height='6' fill='#949494'/></pattern></defs>"
)
_STYLE = (
    "text{font:13px system-ui,Roboto,Helvetica,Arial,sans-serif;fill:#1a1a1a}"
    ".head{font-weight:600}"
    ".part{stroke:#1a1a1a;stroke-width:1}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a bar."""

    name: str
    size_bytes: int


def picture(plan: Plan) -> str:
    """Return the picture as SVG.

    Raises:
        ValueError: for a plan that vLLM refuses.
    """
    rank = plan.limiting_rank
    if rank is None:
        raise ValueError(f"{plan.name} is refused")
    total = plan.gpu.total_memory_bytes
    rest = total - rank.requested_memory_bytes
    sizes = {line.name: line.size_bytes for line in rank.lines}
    small = [Part(name=n, size_bytes=s) for n, s in sizes.items() if n not in _LARGE]
    between = Part(name=_BETWEEN, size_bytes=sum(part.size_bytes for part in small))
    whole = [
        Part(name="weights", size_bytes=sizes["weights"]),
        between,
        Part(name="KV cache", size_bytes=sizes["KV cache"]),
        Part(name=NOT_ASKED, size_bytes=rest),
    ]
    beside = [
        Part(name=one.name, size_bytes=one.size_bytes)
        for one in rank.outside
        if one.size_bytes
    ]
    free = rest - sum(part.size_bytes for part in beside)
    return _page(
        {
            f"{plan.gpu.name}: {format_gib(total)}": whole,
            f"Between them, enlarged: {format_gib(between.size_bytes)}": small,
            f"Not asked for, enlarged: {format_gib(rest)}": [
                *beside,
                Part(name=_FREE, size_bytes=free),
            ],
        }
    )


def _page(bars: Mapping[str, Sequence[Part]]) -> str:
    """Stack the bars, each under its heading."""
    out, y = [], _MARGIN + _ROW
    for heading, parts in bars.items():
        title = f"<text class='head' y='-8'>{escape(heading)}</text>"
        out.append(f"<g transform='translate({_MARGIN} {y})'>{title}{_bar(parts)}</g>")
        y += _BAR + _ROW * (len(parts) + 1) + _MARGIN
    height = y - _ROW
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' "
        f"width='{_WIDTH}' height='{height}' role='img'>\n<style>{_STYLE}</style>\n"
        f"{_HATCH}\n<rect width='{_WIDTH}' height='{height}' rx='8' fill='#ffffff'/>"
        "\n" + "\n".join(out) + "\n</svg>\n"
    )


def _bar(parts: Sequence[Part]) -> str:
    """Draw a bar as wide as the page, and under it a line for each part."""
    width = _WIDTH - 2 * _MARGIN
    total = sum(part.size_bytes for part in parts)
    edges = [
        width * size / total
        for size in accumulate((part.size_bytes for part in parts), initial=0)
    ]
    drawn = [
        f"<rect class='part' x='{left:.1f}' width='{right - left:.1f}' "
        f"height='{_BAR}' fill='{_fill(part.name)}'/>"
        for part, left, right in zip(parts, edges, edges[1:], strict=False)
    ]
    drawn += [_item(part, _BAR + 6 + _ROW * n) for n, part in enumerate(parts)]
    return "".join(drawn)


def _item(part: Part, y: int) -> str:
    right = _WIDTH - 2 * _MARGIN
    return (
        f"<rect class='part' y='{y + 3}' width='12' height='12' "
        f"fill='{_fill(part.name)}'/>"
        f"<text x='20' y='{y + 14}'>{escape(part.name)}</text>"
        f"<text x='{right}' y='{y + 14}' text-anchor='end'>"
        f"{format_gib(part.size_bytes)}</text>"
    )


def _fill(name: str) -> str:
    return _FILLS.get(name) or swatch(name).fill
