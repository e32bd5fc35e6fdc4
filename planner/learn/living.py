"""The living KV cache of a plan: requests that come, grow, share, wait and return.

The figures are the plan's: the size of its blocks, how many it has, how many one
request needs. So many blocks cannot be drawn: a square is several of them, and of a
large cache only a part is drawn. The picture says both.
"""

from __future__ import annotations

from typing import Any

from planner.errors import PlannerError
from planner.late import late
from planner.learn.account import rank_of
from planner.learn.display import ShownAsText
from planner.learn.kv_simulation import SHARED, Arrival, Simulation, Step
from planner.planning.result import Plan
from planner.planning.serving import NULL_BLOCKS
from planner.show.html import Html
from planner.show.page import wide_page
from planner.show.pieces import table_html
from planner.show.verdict import subject
from planner.units import counted, format_size
from planner.values import frozen

_SQUARES = 60
_MOST_AT_ONCE = 2.7
"""Requests of full length that the picture has room for."""
_REQUESTS = 6
_PROMPT, _SHARED = 0.5, 0.15
"""Shares of max_model_len: the prompt, and its beginning that all have in common."""
_LEAST_SQUARES = 4
"""Of a request: fewer show no growth."""
_STORES_EACH_TOKEN = ("FullAttentionSpec", "MLAAttentionSpec")


@frozen(repr=False)
class LivingCache(ShownAsText):
    """A KV cache at work, step by step."""

    plan: Plan
    blocks_per_square: int
    num_squares: int
    steps: tuple[Step, ...]

    @property
    def square_tokens(self) -> int:
        """The tokens that a square holds."""
        return self.blocks_per_square * self.plan.kv_groups[0].block_size

    @property
    def words(self) -> str:
        """What the picture is of, and its scale."""
        rank = rank_of(self.plan)
        block_size = self.plan.kv_groups[0].block_size
        each = format_size(rank.bytes_per_block * self.blocks_per_square)
        drawn = self.num_squares * self.blocks_per_square
        whole = rank.num_blocks - NULL_BLOCKS
        part = "" if drawn == whole else f" The picture has {drawn:,} of them."
        return (
            f"{subject(self.plan)}: {whole:,} blocks of {block_size} tokens for "
            f"requests, {format_size(rank.bytes_per_block)} each on every "
            f"{self.plan.gpu.kind}.{part} 1 square = "
            f"{counted(self.blocks_per_square, 'blocks')} = {self.square_tokens:,} "
            f"tokens = {each}. In each step, a running request gets a square of its "
            "answer."
        )

    def __str__(self) -> str:
        lines = [
            f"{number:>3}  {text}"
            for number, step in enumerate(self.steps)
            for text in step.events
        ]
        return "\n".join([self.words, *lines])

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        page: Html = late("LivingCache.html", self)
        return {"text/plain": str(self), "text/html": page}

    def to_html(self) -> str:
        """Return a page of its own, which needs no kernel and no network."""
        return late("LivingCache.to_html", self)

    def table(self) -> Html:
        """Tell the steps as a table, where no script runs."""
        rows = (
            (f"{number}", f"{step.used} of {self.num_squares}", " ".join(step.events))
            for number, step in enumerate(self.steps)
            if step.events
        )
        columns = ("Step", "Squares in use", ("What happens", "pl-text"))
        return wide_page(table_html(self.words, columns, rows))

    def described(self) -> dict[str, Any]:
        """Describe all steps for the page's script."""
        names = [one.name for one in self.steps[0].requests]
        return {
            "words": self.words,
            "names": names,
            "square_tokens": self.square_tokens,
            "steps": [self._described(step) for step in self.steps],
        }

    def _described(self, step: Step) -> dict[str, Any]:
        return {
            "blocks": [
                [
                    "" if one.content == SHARED else one.content,
                    "".join(one.owners),
                    round(one.tokens / self.square_tokens, 2),
                ]
                for one in step.blocks
            ],
            "requests": [
                [one.phase, one.tokens, one.total_tokens, one.preemptions]
                for one in step.requests
            ],
            "used": step.used,
            "events": list(step.events),
        }


def living_kv_cache(plan: Plan) -> LivingCache:
    """Show the KV cache of a plan at work.

    Six requests come that begin alike, fill it, and share it; where they do not find
    room, the last of them is preempted, waits, and comes back.

    Args:
        plan: of a start that fits, of a model whose layers all store every token.

    Raises:
        PlannerError: for a plan that does not start, and for a model that has windows,
            states, or no KV cache.
    """
    rank = rank_of(plan)
    groups = plan.kv_groups
    if len(groups) != 1 or groups[0].kind not in _STORES_EACH_TOKEN:
        raise PlannerError(
            f"{plan.name} has layers that do not store every token. The picture is of "
            "models whose layers all do, such as Qwen/Qwen3-8B."
        )
    if plan.error is not None:
        raise PlannerError(f"This start has no room to show: {plan.error.message}")
    usable = rank.num_blocks - NULL_BLOCKS
    drawn = min(usable, int(_MOST_AT_ONCE * plan.blocks_per_request))
    per_square = min(
        -(-drawn // _SQUARES), max(plan.blocks_per_request // _LEAST_SQUARES, 1)
    )
    squares = drawn // per_square
    size = per_square * groups[0].block_size
    simulation = Simulation(
        _arrivals(plan, size, squares * size),
        num_blocks=squares,
        block_size=size,
        max_num_seqs=plan.resolved.max_num_seqs if plan.resolved else 1,
        enable_prefix_caching=_is_caching(plan),
        unit="square",
    )
    return LivingCache(
        plan=plan,
        blocks_per_square=per_square,
        num_squares=squares,
        steps=simulation.steps(),
    )


def _is_caching(plan: Plan) -> bool:
    return bool(plan.resolved and plan.resolved.enable_prefix_caching)


def _arrivals(plan: Plan, square: int, room: int) -> list[Arrival]:
    """Return requests of the longest length that differ a little in their prompts."""
    longest = min(plan.resolved.max_model_len if plan.resolved else room, room)
    shared = max(round(longest * _SHARED / square), 1) * square
    arrivals = []
    for index in range(_REQUESTS):
        prompt = int(longest * _PROMPT * (1 - 0.06 * (index % 3)))
        arrivals.append(
            Arrival(
                name="ABCDEFGH"[index],
                step=1 + 2 * index,
                prompt_tokens=prompt,
                answer_tokens=longest - prompt,
                shared_tokens=min(shared, prompt),
            )
        )
    return arrivals
