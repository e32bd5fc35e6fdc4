"""The pictures of the workshop's slides: SVG, drawn from the planner's figures.

They are 480 units wide with text of 13, on a phone of 16 (`slides/slides.css`): leave
room for both. They take ink and paper from the slide, so that they read the same in
light and dark. No figure is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise

from planner.learn.account import rank_of
from planner.memory.account import Line
from planner.planning.result import Plan
from planner.show.palette import swatch
from planner.units import format_gib

WIDTH = 480
_REQUESTS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
"""Colours of requests, Okabe and Ito's."""
_NARROW = 72
"""Below it a segment's name stands beneath the bar."""
_NAME = 80
"""What a request's name and its distance from an edge take, on a phone."""
_LOWER = 40
"""The second row of such names lies so far below the first."""


def bar(plan: Plan) -> str:
    """Draw a card: each line of its account named, vLLM's budget and the total."""
    rank, total = rank_of(plan), plan.gpu.total_memory_bytes
    scale = WIDTH / total
    lines = [line for line in rank.lines if line.size_bytes > 0]
    edges = [
        scale * one for one in accumulate((x.size_bytes for x in lines), initial=0)
    ]
    drawn = [_rect((0, 44, WIDTH, 54), "none", "rest")]
    small: list[tuple[Line, float]] = []
    for line, (left, right) in zip(lines, pairwise(edges), strict=True):
        colours, middle = swatch(line.name), (left + right) / 2
        drawn.append(_rect((left, 44, right - left, 54), colours.fill))
        if right - left < _NARROW:
            small.append((line, middle))
            continue
        for y, text in ((67, line.name), (84, format_gib(line.size_bytes))):
            style = f"style='fill:{colours.label}'"
            drawn.append(_text(middle, y, text, "middle", style))
    drawn += _beneath(small)
    budget = scale * rank.requested_memory_bytes
    drawn += [
        f"<line class='budget' x1='{budget:.1f}' x2='{budget:.1f}' y1='30' y2='106'/>",
        _text(budget, 25, f"vLLM requests {format_gib(rank.requested_memory_bytes)}"),
        f"<line class='total' x1='{WIDTH - 1}' x2='{WIDTH - 1}' y1='12' y2='106'/>",
        _text(WIDTH - 6, 10, f"{plan.gpu.name} has {format_gib(total)}"),
    ]
    spoken = ", ".join(f"{one.name} {format_gib(one.size_bytes)}" for one in lines)
    height = 166 + (_LOWER if len(small) > 1 else 0)
    return _svg(drawn, height, f"The memory of one {plan.gpu.name}: {spoken}.")


def _beneath(small: Sequence[tuple[Line, float]]) -> list[str]:
    """Name narrow segments beneath the bar, in two rows by turns."""
    drawn = []
    for number, (line, middle) in enumerate(small):
        x = WIDTH * (number + 0.5) / len(small)
        y = 128 + _LOWER * (number % 2)
        anchor = "middle"
        if number in (0, len(small) - 1) and len(small) > 1:
            anchor = "end" if number else "start"
        at = {"start": 0.0, "middle": x, "end": float(WIDTH)}[anchor]
        drawn += [
            f"<polyline class='lead' points='{middle:.1f},98 {middle:.1f},106 "
            f"{x:.1f},122 {x:.1f},{y}'/>",
            _text(at, y + 14, line.name, anchor),
            _text(at, y + 31, format_gib(line.size_bytes), anchor, "class='head'"),
        ]
    return drawn


def budget(plan: Plan) -> str:
    """Draw how the KV cache is what remains: the total, the request, the rest of it."""
    rank, total = rank_of(plan), plan.gpu.total_memory_bytes
    share = plan.resolved.gpu_memory_utilization if plan.resolved else 0.0
    asked, left = rank.requested_memory_bytes, rank.available_kv_cache_bytes
    steps = (
        (f"{plan.gpu.name}, as CUDA reports it", 0, total, "#767676"),
        (f"vLLM requests {share:g} of it", 0, asked, "#56B4E9"),
        ("everything except the KV cache", 0, asked - left, "#E69F00"),
        ("left for the KV cache", asked - left, left, swatch("KV cache").fill),
    )
    drawn = []
    for number, (name, begin, size, fill) in enumerate(steps):
        y = 46 * number
        drawn += [
            _text(0, y + 13, name, "start"),
            _text(WIDTH, y + 13, format_gib(size), "end", "class='head'"),
            _rect((WIDTH * begin / total, y + 18, WIDTH * size / total, 20), fill),
        ]
    spoken = "; ".join(f"{name}: {format_gib(size)}" for name, _, size, _ in steps)
    return _svg(drawn, 46 * len(steps), spoken)


def blocks(plan: Plan) -> str:
    """Draw every block of the KV cache, and which request of the full length has it."""
    rank_of(plan)
    number, size = plan.num_gpu_blocks or 0, _block_tokens(plan)
    length = plan.resolved.max_model_len if plan.resolved else 0
    each = -(-length // size)
    whole = (number - 1) // each
    columns = 80
    cell = WIDTH / columns
    drawn = []
    for at in range(number):
        holder = (at - 1) // each
        fill = "currentColor" if at == 0 else "none"
        if at > 0 and holder < whole:
            fill = _REQUESTS[holder % len(_REQUESTS)]
        x, y = cell * (at % columns), cell * (at // columns)
        drawn.append(_rect((x + 0.5, y + 0.5, cell - 1, cell - 1), fill, "block"))
    height = cell * -(-number // columns) + 8
    rest = number - 1 - whole * each
    rows = [
        *(
            (_REQUESTS[one % len(_REQUESTS)], f"request {one + 1}: {each:,} blocks")
            for one in range(whole)
        ),
        ("none", f"{rest:,} blocks are left, too few for another"),
        ("currentColor", "one block stays empty"),
    ]
    for place, (fill, text) in enumerate(rows):
        # Requests in two columns, so that the slide keeps its height with more of them.
        is_request = place < whole
        x = WIDTH / 2 * (place % 2) if is_request else 0
        line = place // 2 if is_request else place - whole + -(-whole // 2)
        y = height + 20 * line
        drawn.append(_rect((x + 0.5, y + 2, 12, 12), fill, "block"))
        drawn.append(_text(x + 20, y + 13, text, "start"))
    told = f"{number:,} blocks of {size} tokens; " + "; ".join(text for _, text in rows)
    lines = len(rows) - whole + -(-whole // 2)
    return _svg(drawn, height + 20 * lines + 2, told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What each request holds after a number of answered tokens of the first one."""

    answered: int
    blocks: tuple[int, ...]


def grown(plan: Plan, prompt_tokens: int, step: int = 8) -> list[Step]:
    """Let requests grow to the full length, and the last one give way.

    Blocks are allocated for tokens that exist. Where none is left, the request that
    came last loses its blocks, and begins again when there is room for what it had.

    Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` Scheduler.schedule (first come,
    first served; preempts the last of the running requests).
    """
    size, free = _block_tokens(plan), (plan.num_gpu_blocks or 1) - 1
    most = plan.resolved.max_model_len if plan.resolved else 0
    num_requests = free // (most // size) + 1  # one more than fit at full length
    tokens, runs = [prompt_tokens] * num_requests, [True] * num_requests
    done = [False] * num_requests
    steps = []

    def held() -> tuple[int, ...]:
        return tuple(
            -(-count // size) if running else 0
            for count, running in zip(tokens, runs, strict=True)
        )

    answered = 0
    while not all(done):
        for one in range(num_requests):
            if runs[one]:
                tokens[one] += step
                done[one] = tokens[one] >= most
                runs[one] = not done[one]
        while sum(held()) > free:
            last = max(one for one in range(num_requests) if runs[one])
            runs[last] = False
        for one in range(num_requests):
            waits = not runs[one] and not done[one]
            if waits and sum(held()) + -(-tokens[one] // size) <= free:
                runs[one] = True
        answered += step
        steps.append(Step(answered=answered, blocks=held()))
    return steps


def preemption(plan: Plan, prompt_tokens: int) -> str:
    """Draw the blocks of requests over time: one is preempted, and returns."""
    steps = grown(plan, prompt_tokens)
    whole = (plan.num_gpu_blocks or 1) - 1
    last, height = steps[-1].answered, 150
    drawn = []
    num_requests = len(steps[0].blocks)
    gone_at = next(at for at, step in enumerate(steps) if step.blocks[-1] == 0)
    gone = steps[gone_at].answered
    x = WIDTH * gone / last
    for one in range(num_requests):
        below = [sum(step.blocks[:one]) for step in steps]
        above = [sum(step.blocks[: one + 1]) for step in steps]
        edges = [
            [
                (WIDTH * step.answered / last, 20 + height * (1 - held / whole))
                for step, held in zip(steps, edge, strict=True)
            ]
            for edge in (above, below)
        ]
        points = " ".join(f"{at:.1f},{y:.1f}" for at, y in edges[0] + edges[1][::-1])
        drawn.append(
            f"<polygon class='grown' points='{points}' fill='{_REQUESTS[one]}'/>"
        )
        ink = "#fff" if one == 0 else "#000"
        # Where its band is widest: below its upper edge where the name begins, and
        # above its lower edge where it ends.
        first = next(y for at, y in edges[0] if at >= x - _NAME)
        middle = (first + edges[1][gone_at - 1][1]) / 2
        style = f"style='fill:{ink}'"
        drawn.append(_text(x - 6, middle + 5.5, f"request {one + 1}", "end", style))
    back_at = next(
        (s.answered for s in steps if s.answered > gone and s.blocks[-1]), last
    )
    drawn += [
        "<line class='budget' x1='0' x2='480' y1='20' y2='20'/>",
        _text(0, 14, f"{whole:,} blocks", "start"),
        f"<line class='lead' x1='{x:.1f}' x2='{x:.1f}' y1='20' y2='{height + 26}'/>",
        _text(0, height + 40, f"full after {gone:,} tokens of answer:", "start"),
        _text(0, height + 56, f"request {num_requests} is preempted", "start"),
        _text(WIDTH, height + 40, f"from {back_at:,} on"),
        _text(WIDTH, height + 56, "it is computed again"),
    ]
    spoken = (
        f"{num_requests} requests fill {whole:,} blocks after {gone:,} tokens of "
        f"answer; the last one is preempted, and computed again from {back_at:,} on."
    )
    return _svg(drawn, height + 62, spoken)


def _block_tokens(plan: Plan) -> int:
    return (plan.kv_cache_size_tokens or 0) // (plan.num_gpu_blocks or 1)


def _rect(box: tuple[float, float, float, float], fill: str, kind: str = "part") -> str:
    x, y, width, height = box
    return (
        f"<rect class='{kind}' x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' "
        f"height='{height:.1f}' fill='{fill}'/>"
    )


def _text(x: float, y: float, text: str, anchor: str = "end", more: str = "") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {more}>"
        f"{escape(text)}</text>"
    )


def _svg(drawn: Sequence[str] | Iterator[str], height: float, spoken: str) -> str:
    """Return a picture on one line, so that Markdown takes it as one block of HTML."""
    return (
        f"<svg class='picture' viewBox='0 0 {WIDTH} {height:.0f}' role='img' "
        f"aria-label='{escape(spoken, quote=True)}'>{''.join(drawn)}</svg>"
    )
