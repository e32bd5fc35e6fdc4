"""A day at the desk: the KV cache of a plan at work, as a game of settings.

Forty visitors come; the learner sets how long their prompts are and what they share,
and vLLM's arguments. The page's script has vLLM's scheduler (`scheduler.js`, held to
vLLM's own); every figure that it starts from is planned here: blocks, their sizes and
groups, the tokens of a step, the seconds that a step takes at least, a GPU's price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import ShownAsPage
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import UniformTypeKVCacheSpecs
from planner.memory.kv_cache.specs_of_states import ALIGN
from planner.planning.defaults import ResolvedSettings
from planner.planning.inputs import Inputs
from planner.planning.planning import layer_groups
from planner.planning.result import Plan
from planner.planning.serving import NULL_BLOCKS
from planner.show.document import wide_page
from planner.show.html import Html
from planner.show.pieces import table_html
from planner.show.verdict import subject
from planner.solve.price_list import gpu_prices
from planner.solve.speed.step import Peaks, kv_bytes
from planner.solve.speed.work import work_of
from planner.units import counted, format_size
from planner.values import frozen

_HOURS = (2, 4, 6, 7, 4, 3, 5, 6, 3)
"""Visitors in each hour of the desk, from 9 to 18."""
_OPENS = 9
_MIDDLE = 3 / 8
"""Of the longest request: the prompt of a visitor, at first."""
_LENGTHS, _SHARED = 12, (0, 1 / 16, 1 / 8, 1 / 4)
"""Prompts to choose from, in sixteenths of the longest request; beginnings to share."""
_ANSWER = 400
"""Tokens of an answer, on average; at most an eighth of the longest request."""
_CROWD = 0.8
"""Of the time that the visitors take one after the other in a cache that is full."""
_SEQS = (2, 4, 8, 16)
_OTHER_DTYPE = {"auto": "fp8"}
_STEP_SECONDS = 0.05
"""Of a GPU whose bandwidth is not known."""
_KINDS = {
    "FullAttentionSpec": "full",
    "MLAAttentionSpec": "full",
    "SlidingWindowSpec": "window",
    "ChunkedLocalAttentionSpec": "chunk",
    "MambaSpec": "state",
}
_STORES = {
    "full": "every token",
    "window": "a window of {:,} tokens",
    "chunk": "chunks of {:,} tokens",
    "state": "a state, a block for each request",
}


@frozen
class GroupRule:
    """How a group of layers uses blocks."""

    kind: str
    """What it stores of a request: full, window, chunk or state."""
    size: int
    """Tokens of a block."""
    kept: int = 0
    """Tokens of a window or a chunk."""
    reused: bool = False
    """Of states: whether those at the ends of blocks are kept for other requests."""
    saved: bool = False
    """Of such states: whether a kernel also saves one inside a prompt."""

    @property
    def stores(self) -> str:
        """What it stores, in words."""
        words = _STORES[self.kind].format(self.kept)
        return words if self.kind == "state" else f"{words} ({self.size:,} a block)"


@frozen(repr=False)
class LivingCache(ShownAsPage):
    """The KV cache of a plan, and the visitors of a day."""

    script = "living.js"

    plan: Plan
    choices: tuple[Plan, ...]
    """The same with other arguments that the game lets a learner set."""

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return _resolved(self.plan).max_model_len

    @property
    def answer(self) -> int:
        """Tokens of an answer, on average."""
        return min(_ANSWER, self.longest // 8)

    @property
    def seconds(self) -> float:
        """Seconds of the GPU that the day has: its peaks crowd the cache."""
        least, kept, computed = _step_seconds(self.plan)
        prompt = int(self.longest * _MIDDLE)
        tokens = prompt + self.answer // 2
        held = self.plan.kv_cache_size_tokens / tokens
        at_once = max(1.0, min(held, _resolved(self.plan).max_num_seqs, sum(_HOURS)))
        each = self.answer * (least + kept * tokens * at_once) / at_once
        return _CROWD * sum(_HOURS) * (each + computed * prompt)

    @property
    def words(self) -> str:
        """What the picture is of."""
        rank = rank_of(self.plan)
        return (
            f"{subject(self.plan)}: {rank.num_blocks - NULL_BLOCKS:,} blocks for "
            f"requests, {format_size(rank.bytes_per_block)} each on every "
            f"{self.plan.gpu.kind}. {self._groups}"
        )

    @property
    def _groups(self) -> str:
        """What each group of layers stores."""
        rules = rules_of(self.plan)
        layers: dict[str, int] = {}
        for rule, group in zip(rules, self.plan.kv_groups, strict=True):
            layers[rule.stores] = layers.get(rule.stores, 0) + group.num_layers
        parts = "; ".join(
            f"{counted(count, 'layers')} {'stores' if count == 1 else 'store'} {stores}"
            for stores, count in layers.items()
        )
        if len(rules) == 1:
            return f"{parts}."
        return f"{counted(len(rules), 'groups')} of layers share them: {parts}."

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return f"A day at the desk: {subject(self.plan)}"

    def __str__(self) -> str:
        rows = (
            ": ".join((name, *figures))
            for name, *figures in dict.fromkeys(self._rows())
        )
        return "\n".join([self.words, *rows])

    def table(self) -> Html:
        """Show how many visitors each choice has room for, where no script runs."""
        columns = ("vLLM", "Blocks", "Prompts that fit at once")
        return wide_page(table_html(self.words, columns, dict.fromkeys(self._rows())))

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        prompt = int(self.longest * _MIDDLE)
        for one in self.choices:
            resolved = _resolved(one)
            tokens = one.kv_cache_size_tokens
            yield (
                f"kv_cache_dtype={_dtype(one)}, max_num_seqs={resolved.max_num_seqs}",
                f"{rank_of(one).num_blocks - NULL_BLOCKS:,}",
                f"{min(tokens // prompt, resolved.max_num_seqs)} of {prompt:,} tokens",
            )

    def described(self) -> dict[str, Any]:
        """Describe the day for the page's script."""
        price = gpu_prices().of(self.plan.gpu)
        unit, steps = self.longest // 16, range(1, _LENGTHS + 1)
        desk = {
            "words": self.words,
            "subject": f"{subject(self.plan)}, vLLM {self.plan.vllm_version}",
            "longest": self.longest,
            "arrivals": [
                round((hour + (at + 0.5) / count) / len(_HOURS), 4)
                for hour, count in enumerate(_HOURS)
                for at in range(count)
            ],
            "seconds": round(self.seconds, 2),
            "hours": f"{_OPENS} {_OPENS + len(_HOURS)}",
            "cost": price
            and {
                "price": round(price.per_hour * self.plan.gpus_total, 4),
                "currency": gpu_prices().currency,
                "source": f"{price.source}, {price.date}".removesuffix(", "),
            },
            "lengths": [unit * step for step in steps],
            "beginnings": [int(self.longest * share) for share in _SHARED],
            "answer": self.answer,
            "choices": [_described(one) for one in self.choices],
            "settings": {
                **_arguments(self.plan),
                "length": int(unit * 16 * _MIDDLE),
                "shared": 0,
            },
        }
        return {"desk": desk}


def living_kv_cache(plan: Plan) -> LivingCache:
    """Play a day at the desk with the KV cache of a plan, by vLLM's own scheduling.

    Forty visitors come; kv_cache_dtype, max_num_seqs, prefix caching, prompts and what
    they share can be set while they do.

    Args:
        plan: of a start that fits.

    Raises:
        PlannerError: for a plan that does not start, and for a model without a KV
            cache, or with one whose stepping is not modelled.
    """
    rank_of(plan)
    rules_of(plan)
    if plan.error is not None:
        raise PlannerError(f"This start has no room to show: {plan.error.message}")
    return LivingCache(plan=plan, choices=tuple(_choices(plan)))


def _choices(plan: Plan) -> Iterator[Plan]:
    """Yield the plan with each choice of arguments that starts, as given first."""
    resolved = _resolved(plan)
    dtypes = dict.fromkeys((_dtype(plan), _OTHER_DTYPE.get(_dtype(plan), "auto")))
    known = dict.fromkeys((*_SEQS, resolved.max_num_seqs))
    cachings = [resolved.enable_prefix_caching]
    if resolved.enable_prefix_caching:
        cachings.append(False)
    for dtype in dtypes:
        for seqs in sorted(known):
            for caching in cachings:
                arguments = {
                    "kv_cache_dtype": dtype,
                    "max_num_seqs": seqs,
                    "enable_prefix_caching": caching,
                }
                one = plan.changed(**arguments)
                if one.error is None and _is_shown(one):
                    yield one


def _is_shown(plan: Plan) -> bool:
    try:
        rules_of(plan)
    except PlannerError:
        return False
    return True


def _arguments(plan: Plan) -> dict[str, Any]:
    resolved = _resolved(plan)
    return {
        "dtype": _dtype(plan),
        "seqs": resolved.max_num_seqs,
        "caching": bool(resolved.enable_prefix_caching),
    }


def _described(plan: Plan) -> dict[str, Any]:
    rank = rank_of(plan)
    return {
        **_arguments(plan),
        "blocks": rank.num_blocks - NULL_BLOCKS,
        "batched": _resolved(plan).max_num_batched_tokens,
        "rules": [asdict(rule) for rule in rules_of(plan)],
        "size": format_size(rank.bytes_per_block),
        "seconds": _step_seconds(plan),
    }


def _resolved(plan: Plan) -> ResolvedSettings:
    assert plan.resolved is not None  # of a start that fits
    return plan.resolved


def _dtype(plan: Plan) -> str:
    return str(plan.settings.kv_cache_dtype or "auto")


def _step_seconds(plan: Plan) -> tuple[float, float, float]:
    """Return what a step takes at least, as `planner.speed_bound` counts it.

    Seconds of its weights, of each token that it reads from the cache, and of each
    token that it computes. Experts and windows count as in steps of a full cache.
    """
    try:
        peaks = Peaks.of(plan.gpu, _resolved(plan).dtype)
    except PlannerError:
        return (_STEP_SECONDS, 0.0, 0.0)
    work = work_of(plan)
    tokens = int(_resolved(plan).max_model_len * _MIDDLE)
    running = max(1, plan.kv_cache_size_tokens // tokens)
    read = sum(stage.weight_bytes(running) for stage in work.stages)
    kept = sum(
        kv_bytes(one, lambda reach: float(reach.at(tokens))) for one in work.stages
    )
    computed = [peaks.seconds(stage.flops) or 0.0 for stage in work.stages]
    return (
        read / peaks.bandwidth,
        kept / tokens / peaks.bandwidth,
        sum(computed),
    )


def rules_of(plan: Plan) -> tuple[GroupRule, ...]:
    """Return how each group of a plan's layers uses blocks, in the order of the groups.

    Raises:
        PlannerError: for a kind of cache whose stepping is not modelled, and for a
            model without one.
    """
    groups = layer_groups(Inputs.of(plan))
    rules = tuple(_rule(plan, group) for group in groups)
    sizes = {rule.size for rule in rules if rule.kind != "state" or rule.reused}
    if len(sizes) > 1 and {rule.kind for rule in rules} & {"chunk", "state"}:
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
    kept = getattr(spec, "sliding_window", None) if kind == "window" else None
    return GroupRule(
        kind=kind,
        size=group.spec.block_size,
        kept=kept or getattr(spec, "attention_chunk_size", None) or 0,
        reused=getattr(spec, "mamba_cache_mode", "") == ALIGN,
        saved=getattr(spec, "num_prefill_checkpoint_blocks", 0) > 0,
    )


def _not_shown(plan: Plan, what: str) -> PlannerError:
    return PlannerError(
        f"{plan.name} has {what}, which the game does not show. It shows models "
        "whose layers store every token, a window or a state, such as Qwen/Qwen3-8B."
    )
