"""The GPUs of each node as bars: their memory, and the shares that workers have.

The upper row shows the memory of each GPU: the lines of the replica's account in their
colours, and the rest. The lower row shows the GPU as Ray divides it: a colour for each
replica, a hatch for pre- and postprocessing, and the free share. Ray divides shares,
not memory, so the two rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planner.show.charts.frame import AXIS, INK, base_layout, in_gib, note_above
from planner.show.charts.traces import HOVER, NOTHING, segment_looks
from planner.show.palette import EDGE
from planner.show.ray import placement_headline
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.ray.bundles import Node
    from planner.ray.placement import Placement, WorkerPlacement

MOST_DRAWN = 64
"""GPUs; with more, the bars would be too narrow to read."""
REPLICA_FILLS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"),
)
"""The hues of the memory lines, in turn; each replica's bar has its number."""
_DARK = ("#0072B2", "#009E73", "#D55E00")
_TOP, _BOTTOM, _MEMORY, _SHARES = 34, 64, 250, 84
LEGEND_PIXELS = 60


@frozen
class Column:
    """One GPU of a node, and the workers on it."""

    node: Node
    index: int
    uses: tuple[tuple[WorkerPlacement, float, int], ...]
    """Worker, its share, and which of its GPUs this is, from 0."""


def figure_spec(placement: Placement) -> dict[str, Any]:
    """Describe the figure in plotly's JSON, without importing plotly."""
    every = list(columns(placement))
    drawn = every[:MOST_DRAWN]
    traces = [*_memory_traces(placement, drawn), *_share_traces(placement, drawn)]
    return {"data": traces, "layout": _layout(placement, drawn, len(every))}


def columns(placement: Placement) -> Iterator[Column]:
    """Yield each GPU of each node, with the workers on it."""
    for node in placement.nodes:
        for index in range(int(-(-node.gpus // 1))):
            uses = tuple(
                (worker, share, rank)
                for worker in placement.workers
                for rank, (name, gpu, share) in enumerate(_gpus_of(worker))
                if name == node.name and gpu == index
            )
            yield Column(node=node, index=index, uses=uses)


def _gpus_of(worker: WorkerPlacement) -> list[tuple[str, int, float]]:
    """Return node, number and share of each GPU that a worker has."""
    return [
        (place.node, gpu, share) for place in worker.places for gpu, share in place.gpus
    ]


def _memory_traces(placement: Placement, drawn: list[Column]) -> list[dict[str, Any]]:
    plan = placement.pipeline.plan
    names = dict.fromkeys(line.name for rank in plan.ranks for line in rank.lines)
    traces = [_line_trace(placement, name, drawn) for name in names]
    return [*traces, _left_trace(placement, drawn)]


def _line_trace(placement: Placement, name: str, drawn: list[Column]) -> dict[str, Any]:
    found = [
        [line for line in _lines_on(placement, column) if line.name == name]
        for column in drawn
    ]
    sizes = [sum(max(line.size_bytes, 0) for line in lines) for lines in found]
    texts = [
        f"<b>{name}</b> {format_gib(size)}<br>{_where(column)}"
        for column, size in zip(drawn, sizes, strict=True)
    ]
    return {
        **_bar(drawn, name, "y", [in_gib(size) for size in sizes], texts),
        **segment_looks(name, [lines[0].basis if lines else None for lines in found]),
    }


def _lines_on(placement: Placement, column: Column) -> list[Line]:
    """Return the account's lines of every replica on a GPU."""
    pipeline = placement.pipeline
    ranks = pipeline.plan.ranks
    if not ranks:
        return []
    engine = pipeline.engine.name
    tensor = pipeline.plan.settings.tensor_parallel_size or 1
    return [
        line
        for worker, _, number in column.uses
        if worker.stage == engine
        for line in ranks[min(number // tensor, len(ranks) - 1)].lines
    ]


def _left_trace(placement: Placement, drawn: list[Column]) -> dict[str, Any]:
    """Return the memory that no replica's account covers."""
    left = []
    for column in drawn:
        used = sum(max(x.size_bytes, 0) for x in _lines_on(placement, column))
        left.append(max(_capacity(placement, column) - used, 0))
    texts = [
        f"Left {format_gib(size)}<br>{_where(column)}"
        for column, size in zip(drawn, left, strict=True)
    ]
    sizes = [in_gib(size) for size in left]
    return {**_bar(drawn, "left", "y", sizes, texts), "marker": NOTHING}


def _capacity(placement: Placement, column: Column) -> int:
    known = column.node.gpu_memory_bytes
    return known or placement.pipeline.plan.gpu.total_memory_bytes


def _share_traces(placement: Placement, drawn: list[Column]) -> list[dict[str, Any]]:
    """Return one trace per worker that has GPUs, and one of the free shares."""
    traces = []
    for worker in placement.workers:
        shares = [
            sum(share for used, share, _ in column.uses if used is worker)
            for column in drawn
        ]
        if any(shares):
            traces.append(_worker_trace(placement, worker, drawn, shares))
    free = [max(0.0, 1 - sum(share for _, share, _ in c.uses)) for c in drawn]
    texts = [
        f"{share:g} free<br>{_where(c)}" for c, share in zip(drawn, free, strict=True)
    ]
    rest = _bar(drawn, "free", "y2", free, texts)
    return [*traces, {**rest, "marker": NOTHING, "showlegend": False}]


def _worker_trace(
    placement: Placement,
    worker: WorkerPlacement,
    drawn: list[Column],
    shares: list[float],
) -> dict[str, Any]:
    is_engine = worker.stage == placement.pipeline.engine.name
    fill = REPLICA_FILLS[worker.worker % len(REPLICA_FILLS)] if is_engine else "#999999"
    name = (
        f"replica {worker.worker}" if is_engine else f"{worker.stage} {worker.worker}"
    )
    label = str(worker.worker) if is_engine else worker.stage[:4]
    texts = [
        f"<b>{name}</b> {share:g} of the GPU<br>{_where(column)}"
        for column, share in zip(drawn, shares, strict=True)
    ]
    return {
        **_bar(drawn, name, "y2", shares, texts),
        "text": [label if share else "" for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "#FFFFFF" if fill in _DARK else "#000000", "size": 11},
        "showlegend": False,
        "marker": {
            "color": fill,
            "line": {"color": EDGE, "width": 1},
            "pattern": {
                "shape": "" if is_engine else "/",
                "fgcolor": "rgba(0, 0, 0, 0.4)",
                "fillmode": "overlay",
                "size": 6,
            },
        },
    }


def _where(column: Column) -> str:
    return f"GPU {column.index} of {column.node.name}"


def _bar(
    drawn: list[Column],
    name: str,
    axis: str,
    heights: Sequence[float],
    hovers: Sequence[str],
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "xaxis": "x" if axis == "y" else "x2",
        "yaxis": axis,
        "x": [[c.node.name for c in drawn], [str(c.index) for c in drawn]],
        "y": list(heights),
        "customdata": list(hovers),
        "hovertemplate": HOVER,
    }


def _layout(placement: Placement, drawn: list[Column], total: int) -> dict[str, Any]:
    above = _MEMORY / (_MEMORY + _SHARES)
    title = placement_headline(placement)
    if total > len(drawn):
        title = f"{title}. The first {len(drawn)} of {total} GPUs are drawn."
    shared = base_layout(_TOP + _BOTTOM + _MEMORY + _SHARES, _TOP, _BOTTOM)
    axis = {
        "type": "multicategory",
        "fixedrange": True,
        "ticks": "",
        "showdividers": True,
        "dividercolor": INK,
    }
    return {
        **shared,
        "barmode": "stack",
        "bargap": 0.12,
        "font": {**shared["font"], "size": 12},
        "margin": {**shared["margin"], "l": 56},
        "xaxis": {
            **axis,
            "anchor": "y",
            "showticklabels": False,
            "showdividers": False,
        },
        "xaxis2": {**axis, "anchor": "y2", "matches": "x"},
        "yaxis": _axis("GiB per GPU", (1 - above + 0.03, 1)),
        "yaxis2": {
            **_axis("share", (0, 1 - above - 0.03)),
            "range": [0, 1.02],
            "tickvals": [0, 1],
        },
        "annotations": [note_above(title, pixels=8)],
        "shapes": [],
    }


def _axis(text: str, domain: tuple[float, float]) -> dict[str, Any]:
    return {
        "domain": list(domain),
        **AXIS,
        "title": {"text": text, "font": {"size": 12}},
        "rangemode": "tozero",
    }
