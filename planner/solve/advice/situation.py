"""The plan to improve with all plans made from it, and the candidates for a change.

Each change is planned once, however many makers propose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum, StrEnum
from typing import Any

from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.estimates import split_name
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.model import estimated_model
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.values import frozen

_Key = tuple[tuple[str, str], ...]


class CostClass(StrEnum):
    """What a change costs its user, in the order in which changes are shown."""

    NO_LOSS = "no loss"
    LITTLE_LOSS = "little loss"
    PROMPTS_FIRST = "try your prompts first"
    MORE_HARDWARE = "more hardware"

    @property
    def rule(self) -> str:
        """The sentence that says which changes are in this class."""
        return _RULES[self]

    @property
    def place(self) -> int:
        """Its place among the classes, from 0."""
        return list(CostClass).index(self)


_RULES: Mapping[CostClass, str] = {
    CostClass.NO_LOSS: "The same answers at the same speed: only what is unused goes.",
    CostClass.LITTLE_LOSS: "The same answers except for rounding to 16 or 8 bits, a "
    "little less speed, or less room for surprises.",
    CostClass.PROMPTS_FIRST: "Some answers change, come much later, or are refused: "
    "measure it on your own prompts first.",
    CostClass.MORE_HARDWARE: "More GPUs, or other ones.",
}


class Burden(IntEnum):
    """How much a change takes from its user, least first."""

    NOTHING = 0  # nothing that is missed
    SPEED = 1  # some speed, or some room for surprises
    ACCURACY = 2  # rounding to 8 bits
    ABILITY = 3  # 4 bits, shorter requests, no images, much speed
    HARDWARE = 4  # more GPUs, or another one
    NEARLY_ALL = 5  # most of the speed, or of the length

    @property
    def cost_class(self) -> CostClass:
        """The class in which a change of this burden is shown."""
        return _CLASSES[self]


_CLASSES: Mapping[Burden, CostClass] = {
    Burden.NOTHING: CostClass.NO_LOSS,
    Burden.SPEED: CostClass.LITTLE_LOSS,
    Burden.ACCURACY: CostClass.LITTLE_LOSS,
    Burden.ABILITY: CostClass.PROMPTS_FIRST,
    Burden.HARDWARE: CostClass.MORE_HARDWARE,
    Burden.NEARLY_ALL: CostClass.PROMPTS_FIRST,
}


@frozen
class Candidate:
    """A change that might help, before it is planned."""

    title: str
    changes: Mapping[str, Any]
    """Keyword arguments for `Plan.changed`."""
    cost: str
    """Its cost, in one sentence."""
    burden: Burden = Burden.SPEED
    argument: str = ""
    """That changes; empty: the first of the changes."""

    @property
    def kind(self) -> str:
        """Return the argument that changes."""
        return self.argument or next(iter(self.changes))


@frozen
class Situation:
    """A plan, the load that it must serve, and the plans made from it so far."""

    plan: Plan
    load: Load | None
    inputs: Inputs
    request_tokens: int
    """Length of the requests that are counted."""
    planned: dict[_Key, Plan | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, plan: Plan, load: Load | None) -> Situation:
        """Return the situation of `plan`; its own load counts where none is given."""
        inputs = Inputs.of(plan)
        load = load or plan.load
        tokens = _length(plan, inputs) if load is None else load.request_tokens
        return cls(plan=plan, load=load, inputs=inputs, request_tokens=tokens)

    def after(self, plan: Plan) -> Situation:
        """Return the situation after a change, with requests of the same length."""
        return Situation(
            plan=plan,
            load=self.load,
            inputs=Inputs.of(plan),
            request_tokens=self.request_tokens,
        )

    @property
    def model(self) -> ModelArchitecture | None:
        """The model; None where vLLM does not support its architecture."""
        return self.plan.model

    @property
    def is_served(self) -> bool:
        """Whether the plan already starts and serves the load."""
        return self.serves(self.plan)

    def again(self, **changes: Any) -> Plan | None:  # noqa: ANN401 - vLLM's own types
        """Plan with changes; None for what cannot be planned."""
        key = tuple(sorted((name, repr(value)) for name, value in changes.items()))
        if key not in self.planned:
            self.planned[key] = self._plan(changes)
        return self.planned[key]

    def _plan(self, changes: dict[str, Any]) -> Plan | None:
        inputs = self.inputs.changed(**changes)
        try:
            return replace(inputs, model=self._at_hand(inputs)).plan()
        except PlannerError:
            return None

    def _at_hand(self, inputs: Inputs) -> str | ModelArchitecture:
        """Return the model; an estimated checkpoint of the plan's own without reading.

        A model of the Hub would be asked for once more. Overrides and pooling are
        decided when files are read, so these are read again.
        """
        own, name = self.model, inputs.model
        parts = split_name(name) if isinstance(name, str) else None
        if parts is None or own is None or own.files is None:
            return name
        is_own = own.files.name == parts[0] and not own.is_pooling
        if not is_own or inputs.engine_args.get("hf_overrides"):
            return name
        trusted = bool(inputs.engine_args.get("trust_remote_code"))
        return estimated_model(own, parts[1], trusted=trusted)

    def serves(self, plan: Plan) -> bool:
        """Whether a plan starts and serves the load."""
        if self.load is None:
            return plan.fits
        return serving(plan, self.load).is_served

    def requests(self, plan: Plan) -> int:
        """Return the whole requests of `request_tokens` that a plan serves at once."""
        load = self.load or Load(prompt_tokens=self.request_tokens, output_tokens=0)
        return serving(plan, load).requests_served


def _length(plan: Plan, inputs: Inputs) -> int:
    """Return max_model_len; of a refused plan, its value without other arguments."""
    if plan.resolved is not None:
        return plan.resolved.max_model_len
    given = inputs.engine_args.get("max_model_len")
    length = given if isinstance(given, int) and given > 0 else None
    try:
        plain = replace(inputs, engine_args={}).changed(max_model_len=length).plan()
    except PlannerError:
        return length or 1
    return length or 1 if plain.resolved is None else plain.resolved.max_model_len
