"""The living KV cache of a plan: requests that come, grow, share, wait and return.

The figures are the plan's: the size of its blocks, how many it has, how many one
request needs. So many blocks cannot be drawn: a square is several of them, and of a
large cache only a part is drawn. Where layers store a window or a state, requests of
full length would hide it: shorter ones are drawn. The picture says all of it.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Any

from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import ShownAsPage
from planner.learn.kv_simulation import DrawnStep, Simulation
from planner.learn.kv_tables import SHARED, Arrival, GroupKind, GroupRule
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import UniformTypeKVCacheSpecs
from planner.memory.kv_cache.specs_of_states import ALIGN
from planner.planning.inputs import Inputs
from planner.planning.planning import layer_groups
from planner.planning.result import Plan
from planner.planning.serving import NULL_BLOCKS
from planner.show.document import wide_page
from planner.show.html import Html
from planner.show.pieces import table_html
from planner.show.verdict import subject
from planner.units import counted, format_size
from planner.values import frozen

_SQUARES = 60
_MOST_AT_ONCE = 2.7
"""Requests of full length that the picture has room for."""
_REQUESTS = 6
_PROMPT, _SHARED = 0.5, 0.15
"""Shares of the longest request: the prompt, and its beginning that all share."""
_PARTS = 4
"""Of the longest request: as much is computed at once, where shorter ones are drawn."""
_LEAST_SQUARES = 4
"""Of a request: fewer show no growth."""
_WINDOW_SQUARES, _FEW_GROUPS = 4, 2
"""Of a window; twice as many where there are few groups."""
_LENGTH_SQUARES, _LENGTH_WINDOWS = 16, 4
"""Of a request, where layers store a state; windows of one, where they store those."""


_KINDS = {
    "FullAttentionSpec": GroupKind.FULL,
    "MLAAttentionSpec": GroupKind.FULL,
    "SlidingWindowSpec": GroupKind.WINDOW,
    "ChunkedLocalAttentionSpec": GroupKind.CHUNK,
    "MambaSpec": GroupKind.STATE,
}
_MARKS = {
    GroupKind.FULL: "",
    GroupKind.WINDOW: "w",
    GroupKind.CHUNK: "c",
    GroupKind.STATE: "s",
}


@frozen(repr=False)
class LivingCache(ShownAsPage):
    """A KV cache at work, step by step."""

    script = "living.js"

    plan: Plan
    rules: tuple[GroupRule, ...]
    """Of the groups of layers, by the plan's blocks."""
    blocks_per_square: int
    num_squares: int
    longest: int
    """Tokens of the longest request that is drawn."""
    step_tokens: int
    """Tokens of its answer that a running request gets in a step."""
    steps: tuple[DrawnStep, ...]

    @property
    def square_tokens(self) -> int:
        """The tokens that a square holds, of the group with the smallest blocks."""
        return self.blocks_per_square * min(rule.block_size for rule in self.rules)

    @property
    def words(self) -> str:
        """What the picture is of, and its scale."""
        rank = rank_of(self.plan)
        whole = rank.num_blocks - NULL_BLOCKS
        return (
            f"{subject(self.plan)}: {whole:,} blocks{self._of_tokens} for "
            f"requests, {format_size(rank.bytes_per_block)} each on every "
            f"{self.plan.gpu.kind}.{self._groups}{self._part(whole)} "
            f"1 square = {self._square}. In each step, a running request gets "
            f"{self.step_tokens:,} tokens of its answer."
        )

    @property
    def _of_tokens(self) -> str:
        sizes = {
            rule.block_size for rule in self.rules if rule.kind is not GroupKind.STATE
        }
        return f" of {sizes.pop():,} tokens" if len(sizes) == 1 else ""

    @property
    def _groups(self) -> str:
        """What each group of layers stores; nothing where all store every token."""
        if {rule.kind for rule in self.rules} == {GroupKind.FULL}:
            return ""
        layers: dict[str, int] = {}
        for rule, group in zip(self.rules, self.plan.kv_groups, strict=True):
            stores = _stores(rule)
            layers[stores] = layers.get(stores, 0) + group.num_layers
        parts = "; ".join(
            f"{counted(count, 'layers')} {'stores' if count == 1 else 'store'} {stores}"
            for stores, count in layers.items()
        )
        if len(self.rules) == 1:
            return f" {parts}."
        groups = counted(len(self.rules), "groups")
        return f" {groups} of layers share them: {parts}."

    def _part(self, whole: int) -> str:
        drawn = self.num_squares * self.blocks_per_square
        part = "" if drawn == whole else f" The picture has {drawn:,} of them"
        limit = self.plan.resolved.max_model_len if self.plan.resolved else 0
        if self.longest < limit and part:
            part += (
                f", and requests of {self.longest:,} tokens instead of {limit:,}, so "
                "that windows and states can be seen"
            )
        return f"{part}." if part else ""

    @property
    def _square(self) -> str:
        rank, count = rank_of(self.plan), self.blocks_per_square
        size = format_size(rank.bytes_per_block * count)
        if any(rule.kind is GroupKind.STATE for rule in self.rules):
            return f"{counted(count, 'blocks')} = {size}"
        return f"{counted(count, 'blocks')} = {self.square_tokens:,} tokens = {size}"

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return f"The KV cache of {subject(self.plan)}"

    def __str__(self) -> str:
        lines = [
            f"{number:>3}  {text}"
            for number, step in enumerate(self.steps)
            for text in step.events
        ]
        return "\n".join([self.words, *lines])

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
            "kinds": [
                [_MARKS[kind], f"of layers that store {kind}"]
                for kind in dict.fromkeys(rule.kind for rule in self.rules)
                if kind is not GroupKind.FULL
            ],
            "steps": [self._described(step) for step in self.steps],
        }

    def _described(self, step: DrawnStep) -> dict[str, Any]:
        return {
            "blocks": [
                [
                    "" if one.content == SHARED else one.content,
                    "".join(one.owners),
                    round(one.tokens / one.size, 2),
                    _MARKS[one.kind] if one.tokens else "",
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
    """Show the KV cache of a plan at work, by the rules of vLLM's scheduler.

    Six requests come that begin alike, fill it, and share it; where they do not find
    room, the last of them is preempted, waits, and comes back.

    Args:
        plan: of a start that fits.

    Raises:
        PlannerError: for a plan that does not start, and for a model without a KV
            cache, or with one whose stepping is not modelled.
    """
    rank = rank_of(plan)
    rules = rules_of(plan)
    if plan.error is not None:
        raise PlannerError(f"This start has no room to show: {plan.error.message}")
    scale, squares, longest = _drawing(plan, rules, rank.num_blocks - NULL_BLOCKS)
    drawn = tuple(scaled(rule, scale) for rule in rules)
    resolved = plan.resolved
    is_full = {rule.kind for rule in rules} == {GroupKind.FULL}
    step_tokens = _smallest(drawn) if is_full else max(longest // _LENGTH_SQUARES, 1)
    simulation = Simulation(
        _arrivals(longest, _aligned(drawn), 2 if is_full else 1),
        rules=drawn,
        num_blocks=squares,
        tokens_per_step=step_tokens,
        max_num_seqs=resolved.max_num_seqs if resolved else 1,
        max_num_batched_tokens=_batched(plan, drawn, longest),
        enable_prefix_caching=_is_caching(plan),
        unit="square",
    )
    return LivingCache(
        plan=plan,
        rules=rules,
        blocks_per_square=scale,
        num_squares=squares,
        longest=longest,
        step_tokens=step_tokens,
        steps=simulation.steps(),
    )


def rules_of(plan: Plan) -> tuple[GroupRule, ...]:
    """Return how each group of a plan's layers uses blocks, in the order of the groups.

    Raises:
        PlannerError: for a kind of cache whose stepping is not modelled, and for a
            model without one.
    """
    groups = layer_groups(Inputs.of(plan))
    rules = tuple(_rule(plan, group) for group in groups)
    sizes = {rule.block_size for rule in rules if _is_counted(rule)}
    if len(sizes) > 1 and {r.kind for r in rules} & {GroupKind.CHUNK, GroupKind.STATE}:
        raise _not_shown(plan, "groups of layers with blocks of several sizes")
    if not rules:
        raise _not_shown(plan, "no KV cache")
    if plan.settings.decode_context_parallel_size not in (None, 1):
        raise _not_shown(plan, "a KV cache that is divided over GPUs by tokens")
    return rules


def _rule(plan: Plan, group: LayerGroup) -> GroupRule:
    spec = group.spec
    if isinstance(spec, UniformTypeKVCacheSpecs):
        spec = spec.specs[0]
    kind = _KINDS.get(spec.kind)
    if kind is None or getattr(spec, "num_speculative_blocks", None):
        raise _not_shown(plan, f"a cache of the kind {group.spec.kind}")
    kept = getattr(spec, "sliding_window", None) if kind is GroupKind.WINDOW else None
    return GroupRule(
        block_size=group.spec.block_size,
        kind=kind,
        kept_tokens=kept or getattr(spec, "attention_chunk_size", None) or 0,
        is_reused=getattr(spec, "mamba_cache_mode", "") == ALIGN,
        has_checkpoints=getattr(spec, "num_prefill_checkpoint_blocks", 0) > 0,
    )


def _not_shown(plan: Plan, what: str) -> PlannerError:
    return PlannerError(
        f"{plan.name} has {what}, which the picture does not show. It shows models "
        "whose layers store every token, a window or a state, such as Qwen/Qwen3-8B."
    )


def _is_counted(rule: GroupRule) -> bool:
    """Whether a longer request has more blocks, or leaves some for others."""
    return rule.kind is not GroupKind.STATE or rule.is_reused


def _aligned(rules: tuple[GroupRule, ...]) -> int:
    return lcm(*(rule.block_size for rule in rules if _is_counted(rule)))


def _smallest(rules: tuple[GroupRule, ...]) -> int:
    return min(rule.block_size for rule in rules)


def scaled(rule: GroupRule, scale: int) -> GroupRule:
    """Return the rule of blocks that are so many times as large.

    Windows, chunks and states keep their sizes.
    """
    return replace(rule, block_size=rule.block_size * scale)


def _batched(plan: Plan, drawn: tuple[GroupRule, ...], longest: int) -> int:
    """Return the tokens that a step of the scheduler computes.

    A window keeps what is computed at once: it would not be seen to move if that were
    a whole prompt of the shorter requests.
    """
    resolved = plan.resolved
    given = resolved.max_num_batched_tokens if resolved else 1
    if resolved is None or longest == resolved.max_model_len:
        return given
    aligned = _aligned(drawn)
    return min(given, max(longest // _PARTS // aligned, 1) * aligned)


def _drawing(
    plan: Plan, rules: tuple[GroupRule, ...], usable: int
) -> tuple[int, int, int]:
    """Return the blocks of a square, the squares, and the longest request's tokens."""
    limit = plan.resolved.max_model_len if plan.resolved else 1
    kept = min((rule.kept_tokens for rule in rules if rule.kept_tokens), default=limit)
    has_states = any(rule.kind is GroupKind.STATE for rule in rules)
    size = _smallest(rules)
    if kept >= limit and not has_states:
        each = plan.blocks_per_request
        drawn = min(usable, int(_MOST_AT_ONCE * each))
        scale = min(-(-drawn // _SQUARES), max(each // _LEAST_SQUARES, 1))
        return scale, drawn // scale, min(limit, drawn // scale * scale * size)
    squares = _WINDOW_SQUARES * (2 if len(rules) <= _FEW_GROUPS else 1)
    scale = 1 if has_states else max(kept // (squares * size), 1)
    long = _LENGTH_SQUARES * size if has_states else _LENGTH_WINDOWS * kept
    longest = min(limit, long)
    each = sum(_held(scaled(rule, scale), longest) for rule in rules)
    return scale, min(usable // scale, int(_MOST_AT_ONCE * each)), longest


def _held(rule: GroupRule, tokens: int) -> int:
    """Return the blocks that a request of so many tokens keeps in a group."""
    if rule.kind is GroupKind.STATE:
        return 1 + rule.is_reused
    kept = min(rule.kept_tokens or tokens, tokens)
    return -(-kept // rule.block_size) + bool(rule.kept_tokens)


def _is_caching(plan: Plan) -> bool:
    return bool(plan.resolved and plan.resolved.enable_prefix_caching)


def _stores(rule: GroupRule) -> str:
    """Return what a group stores, in words."""
    blocks = f" ({rule.block_size:,} tokens a block)"
    if rule.kind is GroupKind.FULL:
        return f"every token{blocks}"
    if rule.kind is GroupKind.STATE:
        return "a state, a block for each request"
    if rule.kind is GroupKind.CHUNK:
        return f"chunks of {rule.kept_tokens:,} tokens{blocks}"
    return f"a window of {rule.kept_tokens:,} tokens{blocks}"


def _arrivals(longest: int, aligned: int, pause: int) -> list[Arrival]:
    """Return requests of the longest length that differ a little in their prompts."""
    shared = max(round(longest * _SHARED / aligned), 1) * aligned
    arrivals = []
    for index in range(_REQUESTS):
        prompt = int(longest * _PROMPT * (1 - 0.06 * (index % 3)))
        arrivals.append(
            Arrival(
                name="ABCDEFGH"[index],
                step=1 + pause * index,
                prompt_tokens=prompt,
                answer_tokens=longest - prompt,
                shared_tokens=min(shared, prompt),
            )
        )
    return arrivals
