"""The plan that advice is asked for, and every plan made from it.

One change is planned once, however many makers ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from planner.errors import PlannerError
from planner.inputs import Inputs
from planner.load import Load
from planner.model import ModelArchitecture
from planner.result import Plan
from planner.solve.serving import NULL_BLOCKS, low_blocks

_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A plan, the load it must serve, and what was planned from it so far."""

    plan: Plan
    load: Load | None
    inputs: Inputs
    request_tokens: int
    """Length of the requests that are counted."""
    planned: dict[_Key, Plan | None] = field(default_factory=dict, repr=False)
    blocks: dict[tuple[object, ...], int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, plan: Plan, load: Load | None) -> Situation:
        """Return the situation that `plan` is in."""
        inputs = Inputs.of(plan)
        tokens = _length(plan, inputs) if load is None else load.request_tokens
        return cls(plan=plan, load=load, inputs=inputs, request_tokens=tokens)

    def after(self, plan: Plan) -> Situation:
        """Return the situation that a change leads to, with requests counted alike."""
        return Situation(
            plan=plan,
            load=self.load,
            inputs=Inputs.of(plan),
            request_tokens=self.request_tokens,
        )

    @property
    def model(self) -> ModelArchitecture | None:
        """The model; None where vLLM does not know its architecture."""
        return self.plan.model

    @property
    def is_served(self) -> bool:
        """Whether nothing needs to change: it starts, and serves the load."""
        return self.serves(self.plan)

    def again(self, **changes: Any) -> Plan | None:  # noqa: ANN401 - vLLM's own types
        """Plan again; None for what cannot be planned, or would change nothing."""
        key = tuple(sorted((name, repr(value)) for name, value in changes.items()))
        if key not in self.planned:
            self.planned[key] = self._plan(changes)
        return self.planned[key]

    def _plan(self, changes: dict[str, Any]) -> Plan | None:
        try:
            return self.inputs.changed(**changes).plan()
        except PlannerError:
            return None

    def serves(self, plan: Plan) -> bool:
        """Whether a plan starts and holds the requests of the load."""
        if self.load is None:
            return plan.fits
        return self.requests(plan) >= self.load.requests

    def requests(self, plan: Plan) -> int:
        """Whole requests at once, in all engines, at the low end of the range.

        0 where vLLM does not start, or refuses requests of this length. No more than
        max_num_seqs run at once, whatever the KV cache holds.
        """
        settings = plan.resolved
        if not plan.fits or settings is None:
            return 0
        if self.request_tokens > settings.max_model_len:
            return 0
        held = self._held(plan)
        return min(held, settings.max_num_seqs) * settings.data_parallel_size

    def _held(self, plan: Plan) -> int:
        """Whole requests that the KV cache of one engine holds."""
        if not plan.kv_groups:
            assert plan.resolved is not None
            return plan.resolved.max_num_seqs
        needed = self._blocks_per_request(plan)
        if not needed:
            return 0
        return max(low_blocks(plan) - NULL_BLOCKS, 0) // needed

    def _blocks_per_request(self, plan: Plan) -> int:
        """Blocks of one request of `request_tokens`, as this plan keeps them."""
        settings = plan.resolved
        assert settings is not None
        if settings.max_model_len == self.request_tokens:
            return plan.blocks_per_request
        key = (
            plan.kv_groups,
            settings.max_num_batched_tokens,
            settings.max_concurrent_batches,
            settings.decode_context_parallel_size,
            settings.max_model_len,
        )
        if key not in self.blocks:
            shorter = plan.changed(
                max_model_len=self.request_tokens,
                max_num_seqs=settings.max_num_seqs,
                max_num_batched_tokens=settings.max_num_batched_tokens,
            )
            self.blocks[key] = shorter.blocks_per_request or plan.blocks_per_request
        return self.blocks[key]


def _length(plan: Plan, inputs: Inputs) -> int:
    """Return max_model_len; of a refused plan, what it would be without the rest."""
    if plan.resolved is not None:
        return plan.resolved.max_model_len
    asked = inputs.engine_args.get("max_model_len")
    length = asked if isinstance(asked, int) and asked > 0 else None
    try:
        plain = replace(inputs, engine_args={}).changed(max_model_len=length).plan()
    except PlannerError:
        return length or 1
    return length or 1 if plain.resolved is None else plain.resolved.max_model_len
