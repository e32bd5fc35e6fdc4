"""Fewer or smaller images, videos and sounds, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.memory.media.towers import limit_per_prompt
from planner.solve.advice.situation import Burden, Candidate, Situation

_TILES = ("max_dynamic_patch", "max_patches")
_NAMES = {"image": "images", "video": "videos", "audio": "sounds"}


def text_only(situation: Situation) -> Iterator[Candidate]:
    """Load no encoder."""
    found = _modalities(situation)
    if not found:
        return
    words = " and ".join(_NAMES.get(name, name) for name in found)
    options: tuple[Mapping[str, Any], ...] = (
        {"language_model_only": True},
        {"limit_mm_per_prompt": dict.fromkeys(found, 0)},
    )
    for changes in options:
        yield Candidate(
            title=f"Serve text only: leave the encoder of {words} out",
            changes=changes,
            cost=f"Requests with {words} are refused.",
            burden=Burden.ABILITY,
        )


def one_modality_less(situation: Situation) -> Iterator[Candidate]:
    """Switch off one of several modalities."""
    found = _modalities(situation)
    if len(found) <= 1:
        return
    for name in sorted(found, key=lambda name: name == "image"):
        words = _NAMES.get(name, name)
        yield _limited(situation, name, 0, f"Serve no {words}", f"{words} are refused.")


def fewer_items(situation: Situation) -> Iterator[Candidate]:
    """Allow one item of each modality in a prompt."""
    many = [
        name
        for name in _modalities(situation)
        if limit_per_prompt(name, situation.plan.settings) > 1
    ]
    if not many:
        return
    words = " and ".join(_NAMES.get(name, name) for name in many)
    given = dict(situation.plan.settings.limit_mm_per_prompt or {})
    yield Candidate(
        title=f"Allow one of each in a prompt: {words}",
        changes={"limit_mm_per_prompt": given | dict.fromkeys(many, 1)},
        cost="Prompts with more of them are refused.",
        burden=Burden.ABILITY,
    )


def smaller_images(situation: Situation) -> Iterator[Candidate]:
    """Shrink large images and video frames before they are encoded."""
    if not _modalities(situation) or situation.model is None:
        return
    given = dict(situation.plan.settings.mm_processor_kwargs or {})
    sizes = [
        item.resizing
        for tower in situation.model.towers
        for item in tower.items
        if item.resizing is not None and item.modality == "image"
    ]
    for resizing in sizes[:1]:
        now = given.get("max_pixels", resizing.most_pixels)
        for part in (2, 4, 8, 16):
            tokens = now // part // resizing.token_pixels
            pixels = tokens * resizing.token_pixels
            yield Candidate(
                title=f"Shrink images to {pixels:,} pixels: {tokens:,} tokens each",
                changes={"mm_processor_kwargs": {**given, "max_pixels": pixels}},
                cost="Details of larger images, and of frames of videos, are lost.",
                burden=Burden.ABILITY,
            )


def encoder_cut(situation: Situation) -> Iterator[Candidate]:
    """Shard the encoder over the ranks, where each holds all of it."""
    if situation.plan.settings.mm_encoder_tp_mode != "data":
        return
    yield Candidate(
        title="Split the encoder across the GPUs, instead of a whole one on each",
        changes={"mm_encoder_tp_mode": "weights"},
        cost="The GPUs exchange the encoder's activations, which may take longer.",
    )


def fewer_tiles(situation: Situation) -> Iterator[Candidate]:
    """Split large images into fewer tiles, where the processor splits them at all."""
    if not _modalities(situation) or situation.model is None:
        return
    given = dict(situation.plan.settings.mm_processor_kwargs or {})
    keys = {
        key: item.sizing
        for tower in situation.model.towers
        for item in tower.items
        if item.sizing is not None
        for key in item.sizing.keys
        if key in _TILES
    }
    for key, sizing in keys.items():
        now = int(given.get(key, getattr(sizing, "most", 1)))
        for most in (now // 2, now // 4, 1):
            if 0 < most < now:
                yield Candidate(
                    title=f"Cut images into {most} tile{'s' if most > 1 else ''} at "
                    f"most, instead of {now}",
                    changes={"mm_processor_kwargs": {**given, key: most}},
                    cost="Details of large images are lost.",
                    burden=Burden.ABILITY,
                )


def encoder_whole(situation: Situation) -> Iterator[Candidate]:
    """Distribute images over the ranks, each with the whole encoder."""
    plan = situation.plan
    ranks = plan.settings.tensor_parallel_size or 1
    if plan.settings.mm_encoder_tp_mode == "data" or ranks == 1:
        return
    if not _modalities(situation) or situation.model is None:
        return
    if not any(tower.supports_data_parallel for tower in situation.model.towers):
        return
    yield Candidate(
        title="Distribute images over the GPUs, each with the whole encoder",
        changes={"mm_encoder_tp_mode": "data"},
        cost="Each GPU holds all weights of the encoder, and encodes some of the "
        "images.",
    )


def no_video_decoding(situation: Situation) -> Iterator[Candidate]:
    """Decode videos on the CPU, where GPU memory is reserved for that."""
    size = situation.plan.settings.mm_ipc_gpu_memory_gb
    if not size or not _modalities(situation):
        return
    yield Candidate(
        title="Decode videos on the processor, not on the GPU",
        changes={"mm_ipc_gpu_memory_gb": None},
        cost="Requests with videos take longer before their first token.",
    )


def _limited(
    situation: Situation, name: str, count: int, title: str, cost: str
) -> Candidate:
    given = dict(situation.plan.settings.limit_mm_per_prompt or {})
    return Candidate(
        title=title,
        changes={"limit_mm_per_prompt": {**given, name: count}},
        cost=f"Requests with {cost}",
        burden=Burden.ABILITY,
    )


def _modalities(situation: Situation) -> tuple[str, ...]:
    """Return the modalities besides text that the model accepts and may be sent."""
    if situation.model is None:
        return ()
    names = [name for tower in situation.model.towers for name in tower.modalities]
    settings = situation.plan.settings
    return tuple(
        name for name in dict.fromkeys(names) if limit_per_prompt(name, settings)
    )
