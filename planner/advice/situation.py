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
from planner.serving import Counted, serving

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
    counted: Counted = field(default_factory=dict, repr=False)

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
        """Whether a plan starts and serves the load."""
        if self.load is None:
            return plan.fits
        return serving(plan, self.load, self.counted).is_served

    def requests(self, plan: Plan) -> int:
        """Whole requests of `request_tokens` that a plan serves at once."""
        load = self.load or Load(prompt_tokens=self.request_tokens, output_tokens=0)
        return serving(plan, load, self.counted).requests_served


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
