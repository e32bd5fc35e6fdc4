"""Formats in which a model's weights and KV cache can be held, and what each costs.

Weights: as given, published checkpoints of the same model in other formats (the bundled
catalogue's, grouped by name and shape), quantised while loading. KV cache: as given,
fp8, nvfp4. Both are the changes that advice proposes, with its cost classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from planner.errors import PlannerError
from planner.models.estimates import split_name
from planner.planning.result import Plan
from planner.solve.advice.makers import cache, checkpoints, weights
from planner.solve.advice.situation import Burden, Candidate, CostClass, Situation
from planner.values import frozen

QUALITIES = (CostClass.NO_LOSS, CostClass.LITTLE_LOSS, CostClass.PROMPTS_FIRST)
"""Classes of what a format costs in answers, the best first."""
_KV_CACHES = ("fp8", "nvfp4")
_GIVEN = ("quantization", "kv_cache_dtype")
_PUBLISHED = (
    checkpoints.eight_bits,
    checkpoints.awq,
    checkpoints.gptq,
    checkpoints.nvfp4,
    checkpoints.mxfp4,
)


@frozen
class ServedFormat:
    """How the weights and the KV cache are held."""

    name: str = ""
    """For people; empty: as given."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Model or engine arguments, for `Plan.changed`."""
    costs: tuple[str, ...] = ()
    """What it costs, a sentence for each change."""
    burden: Burden = Burden.NOTHING

    @property
    def cost_class(self) -> CostClass:
        """What it costs in answers: no loss, little loss, try your prompts first."""
        return self.burden.cost_class

    def beside(self, other: ServedFormat) -> ServedFormat:
        """Return the format with the changes of both."""
        return ServedFormat(
            name=", ".join(filter(None, (self.name, other.name))),
            changes={**self.changes, **other.changes},
            costs=(*self.costs, *other.costs),
            burden=max(self.burden, other.burden),
        )


AS_GIVEN = ServedFormat()


def checked_quality(quality: str) -> CostClass:
    """Return the class of that name.

    Raises:
        PlannerError: naming those there are.
    """
    if quality in QUALITIES:
        return CostClass(quality)
    raise PlannerError(f"quality={quality!r}: use one of {', '.join(QUALITIES)}.")


def other_formats(plan: Plan, quality: CostClass) -> tuple[ServedFormat, ...]:
    """Return the formats beside that of a plan, up to a class, the best first.

    A quantisation or a KV cache type that is given stays.
    """
    situation = Situation.of(plan, None)
    given = [n for n in _GIVEN if getattr(plan.settings, n) is not None]
    held = [AS_GIVEN, *([] if "quantization" in given else _weights(situation))]
    caches = [AS_GIVEN, *([] if "kv_cache_dtype" in given else _caches(situation))]
    found = [one.beside(other) for one in held for other in caches][1:]
    within = [one for one in found if one.cost_class.place <= quality.place]
    return tuple(
        sorted(within, key=lambda one: (one.cost_class.place, len(one.changes)))
    )


def _weights(situation: Situation) -> Iterator[ServedFormat]:
    """Yield the most used checkpoint of each format; where there is none, vLLM's own.

    What vLLM makes while loading takes as much as a checkpoint of as many bits.
    """
    published = set()
    for maker in _PUBLISHED:
        named = (
            one for one in maker(situation) if not split_name(one.changes["model"])
        )
        for one in _first(named):
            published.add(one.burden)
            yield _format(one, one.changes["model"])
    for burden in (Burden.ACCURACY, Burden.ABILITY):
        online = weights.quantised_online(situation)
        alike = (one for one in online if one.burden is burden)
        for one in () if burden in published else _first(alike):
            yield _format(one, f"{one.changes['quantization']} while loading")


def _caches(situation: Situation) -> Iterator[ServedFormat]:
    for maker in (cache.eight_bits, cache.four_bits):
        for one in maker(situation):
            dtype = one.changes["kv_cache_dtype"]
            if dtype in _KV_CACHES:
                yield _format(one, f"KV cache in {dtype}")


def _first(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [one for one, _ in zip(candidates, range(1), strict=False)]


def _format(candidate: Candidate, name: str) -> ServedFormat:
    return ServedFormat(
        name=name,
        changes=candidate.changes,
        costs=(candidate.cost,),
        burden=candidate.burden,
    )
