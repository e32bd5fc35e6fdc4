"""Inkling's encoders: layers that fold patches, and a table of quantised sounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from math import log, prod

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module

_ROUNDED_CHANNELS = 64


def towers(facts: Facts) -> Iterator[Tower]:
    """Return the towers that the config switches on."""
    vision = Facts(facts.mapping("vision_config"), "inkling_vision_model")
    audio = Facts(facts.mapping("audio_config"), "inkling_audio_model")
    width = vision.optional_integer("decoder_dmodel")
    if width is not None:
        yield Tower(("image",), tuple(_vision(vision, width)))
    width = audio.optional_integer("decoder_dmodel")
    if width is not None:
        rows = audio.integer("n_mel_bins") * audio.integer("mel_vocab_size")
        last = ((width,),) if audio.flag("use_audio_norm") else ()
        yield Tower(
            ("audio",), (blocks.replicated("audio.encoder", (rows, width), *last),)
        )


def _vision(facts: Facts, width: int) -> Iterable[Module]:
    """Return the layers that fold patches, each several positions into one.

    Source: vLLM 0.33.0 `models/inkling/common/towers.py` HMLPPatchEncoder.
    """
    scales = _scales(facts)
    count = facts.integer("n_layers")
    for index, (start, end) in enumerate(pairwise(scales)):
        folded = prod(b // a for a, b in zip(start[:3], end[:3], strict=True))
        is_last = index == count - 1
        columns = width if is_last else end[3]
        name = f"visual.vision_encoder.layers.{index}"
        yield blocks.replicated(name, (columns, start[3] * folded))
        if not is_last:
            yield blocks.replicated(f"{name}.norm", (end[3],))
    if facts.flag("use_vision_norm"):
        yield blocks.replicated("visual.vision_encoder.final_norm", (width,))


_Scale = tuple[int, int, int, int]


def _scales(facts: Facts) -> list[_Scale]:
    """Return time, height, width and channels before and after each layer.

    Source: vLLM 0.33.0 `models/inkling/common/towers.py` plan_out_scales.
    """
    patch, channels = facts.integers("patch_size", "n_channels")
    times, layers = facts.integers("temporal_patch_size", "n_layers")
    side, depth = 1, 1
    scales: list[_Scale] = [(1, 1, 1, channels)]
    for factor in reversed(_prime_factors(patch)):
        side *= factor
        scales.append((1, side, side, _rounded(side**2 * channels)))
    for factor in reversed(_prime_factors(times)):
        depth *= factor
        scales.append((depth, side, side, _rounded(side**2 * channels * depth)))
    step = log(patch * patch * times * channels) / layers
    costs = [
        [abs(step * index - log(prod(scale[:3]))) for scale in scales]
        for index in range(layers + 1)
    ]
    chosen = _assigned(costs, len(scales))
    chosen[0], chosen[-1] = 0, len(scales) - 1
    return [scales[index] for index in chosen]


def _assigned(costs: list[list[float]], count: int) -> list[int]:
    """Return for each row a column, all of them in order where there are enough."""
    if len(costs) > count:
        return [row.index(min(row)) for row in costs]
    rows = range(len(costs))
    best = min(
        combinations(range(count), len(costs)),
        key=lambda columns: sum(costs[row][columns[row]] for row in rows),
    )
    return list(best)


def _rounded(channels: int) -> int:
    return -(-channels // _ROUNDED_CHANNELS) * _ROUNDED_CHANNELS


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
