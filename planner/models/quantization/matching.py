"""Which layers the lists of names in a checkpoint's settings match.

Each format names exceptions in its own way. vLLM treats a layer that packs several of
the checkpoint's as one, and requires that all of them agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from planner.errors import Refused
from planner.models.quantization.interface import Place

MatchMode = Literal["exact", "substring", "suffix"]


def _is_listed(prefix: str, names: Sequence[str]) -> bool:
    return prefix in names


def _contains_one(prefix: str, names: Sequence[str]) -> bool:
    return any(name in prefix for name in names)


def _ends_with_one(prefix: str, names: Sequence[str]) -> bool:
    return any(prefix == name or prefix.endswith(f".{name}") for name in names)


_MODES: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "exact": _is_listed,
    "substring": _contains_one,
    "suffix": _ends_with_one,
}


def is_layer_skipped(
    place: Place, ignored: Sequence[str], mode: MatchMode = "exact"
) -> bool:
    """Return whether a list of plain names leaves a layer out.

    Raises:
        Refused: when some of the packed layers are left out and others not.

    Source: vLLM 0.33.0 `layers/quantization/utils/quant_utils.py` is_layer_skipped.
    """
    matches = _MODES[mode]
    if not place.shards:
        if "experts" in place.prefix and mode == "exact":
            return any(place.prefix in name for name in ignored if "experts" in name)
        return matches(place.prefix, ignored)
    if matches(place.prefix, ignored):
        return True
    skipped = {matches(prefix, ignored) for prefix in place.shard_prefixes}
    if len(skipped) > 1:
        raise Refused(
            f"Detected some but not all shards of {place.prefix} are quantized. All "
            "shards of fused layers to have the same precision."
        )
    return skipped.pop()


def is_match(value: str, target: str, *, contains: bool = False) -> bool:
    """Return whether a target matches a value: equal, or by regex after "re:".

    Source: vLLM 0.33.0 `layers/quantization/utils/config_utils.py`
    is_equal_or_regex_match.
    """
    if target.startswith("re:"):
        return re.match(target[3:], value) is not None
    if contains:
        return target.lower() in value.lower()
    return target == value


def should_ignore(place: Place, ignored: Iterable[str]) -> bool:
    """Return whether a list of names and regexes leaves a layer out.

    Raises:
        Refused: when some of the packed layers are left out and others not.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/utils.py`
    should_ignore_layer; `layers/quantization/utils/config_utils.py`
    find_matching_patterns.
    """
    names = tuple(ignored)

    def is_named(prefix: str) -> bool:
        return any(is_match(prefix, name) for name in names)

    if is_named(place.prefix):
        return True
    found = {is_named(prefix) for prefix in place.shard_prefixes}
    if len(found) > 1:
        raise Refused(
            f"Found different quantization schemes for the shards of {place.prefix}. "
            "vLLM requires all to use the same scheme."
        )
    return found.pop()


def matched_target(place: Place, class_name: str, targets: Sequence[str]) -> str | None:
    """Return the target that names a layer, a packed layer, or its class.

    Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/utils.py`
    find_matched_target.
    """
    own = _first(place.prefix, targets)
    if own is not None:
        return own
    if place.shards:
        matches = [_first(prefix, targets) for prefix in place.shard_prefixes]
        if all(matches):
            return matches[0]
    return _first(class_name, targets, contains=True)


def _first(value: str, targets: Sequence[str], *, contains: bool = False) -> str | None:
    return next((t for t in targets if is_match(value, t, contains=contains)), None)
