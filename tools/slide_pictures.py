"""Pictures that only slides have; those of lessons are in planner/learn/drawings.py."""

from __future__ import annotations

from dataclasses import dataclass

from planner.learn.account import rank_of
from planner.learn.drawings import REQUESTS, WIDTH, Picture, path, rect, text
from planner.planning.result import Plan
from planner.show.html import tag

_NAME = 80
"""What a request's name and its distance from an edge take, on a phone."""


def blocks(plan: Plan) -> Picture:
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
            fill = REQUESTS[holder % len(REQUESTS)]
        x, y = cell * (at % columns), cell * (at // columns)
        drawn.append(rect((x + 0.5, y + 0.5, cell - 1, cell - 1), fill, "block"))
    height = cell * -(-number // columns) + 8
    rest = number - 1 - whole * each
    rows = [
        *(
            (REQUESTS[one % len(REQUESTS)], f"request {one + 1}: {each:,} blocks")
            for one in range(whole)
        ),
        ("none", f"{rest:,} blocks are left, too few for another"),
        ("currentColor", "one block stays empty"),
    ]
    for place, (fill, words) in enumerate(rows):
        # Requests in two columns, so that the slide keeps its height with more of them.
        is_request = place < whole
        x = WIDTH / 2 * (place % 2) if is_request else 0
        line = place // 2 if is_request else place - whole + -(-whole // 2)
        y = height + 20 * line
        drawn.append(rect((x + 0.5, y + 2, 12, 12), fill, "block"))
        drawn.append(text(x + 20, y + 13, words, "start"))
    lines = len(rows) - whole + -(-whole // 2)
    return Picture(
        title=f"{number:,} blocks of {size} tokens",
        told=tuple(f"{words}." for _, words in rows),
        height=height + 20 * lines + 2,
        drawn=tuple(drawn),
    )


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


def preemption(plan: Plan, prompt_tokens: int) -> Picture:
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
        drawn.append(tag("polygon", class_="grown", points=points, fill=REQUESTS[one]))
        ink = "#fff" if one == 0 else "#000"
        # Where its band is widest: below its upper edge where the name begins, and
        # above its lower edge where it ends.
        first = next(y for at, y in edges[0] if at >= x - _NAME)
        middle = (first + edges[1][gone_at - 1][1]) / 2
        drawn.append(text(x - 6, middle + 5.5, f"request {one + 1}", "end", ink))
    back_at = next(
        (s.answered for s in steps if s.answered > gone and s.blocks[-1]), last
    )
    drawn += [
        path(f"M0 20H{WIDTH}", "budget"),
        text(0, 14, f"{whole:,} blocks", "start"),
        path(f"M{x:.1f} 20V{height + 26}", "lead"),
        text(0, height + 40, f"full after {gone:,} tokens of answer:", "start"),
        text(0, height + 56, f"request {num_requests} is preempted", "start"),
        text(WIDTH, height + 40, f"from {back_at:,} on"),
        text(WIDTH, height + 56, "it is computed again"),
    ]
    return Picture(
        title="A full KV cache",
        told=(
            f"{num_requests} requests fill {whole:,} blocks after {gone:,} tokens of "
            "answer.",
            f"The last one is preempted, and computed again from {back_at:,} on.",
        ),
        height=height + 62,
        drawn=tuple(drawn),
    )


def _block_tokens(plan: Plan) -> int:
    return (plan.kv_cache_size_tokens or 0) // (plan.num_gpu_blocks or 1)
