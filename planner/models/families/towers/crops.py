"""The largest images and sounds of Phi's models and Kimi-VL.

The number of crops, or of patches, is a setting of their processors, which config.json
does not have: unless mm_processor_kwargs says so, it is as the checkpoints publish it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt

from planner.models.architecture import DummySizes, MediaItem
from planner.models.families.facts import Facts
from planner.models.families.towers.grids import RGB, Items, if_known
from planner.models.families.towers.sizing import ByImage, BySides
from planner.values import frozen

_PHI4_CROPS, _PHI3_CROPS = 36, 16
"""As microsoft/Phi-4-multimodal-instruct and Phi-3-vision-128k-instruct publish them:
dynamic_hd and num_crops."""


@frozen
class PaddedCrops(ByImage):
    """Phi-4-multimodal's images: crops below each other, rows of padding left out.

    Source: vLLM 0.33.0 `models/phi4mm.py` Phi4MMProcessingInfo
    _compute_num_image_tokens, get_image_size_with_most_features.
    """

    most: int = _PHI4_CROPS
    side: int = 448
    patch: int = 14
    keys: tuple[str, ...] = ("dynamic_hd",)

    @property
    def largest(self) -> tuple[int, int]:
        """All crops below each other."""
        return self.side, self.most * self.side

    def image(self, width: int, height: int) -> MediaItem:
        """Return an image no wider than a crop, and no higher than all of them."""
        crops = ceil(height / self.side)
        wide, high = self.side / width, crops * self.side / height
        columns, rows = self.side // self.patch, crops * self.side // self.patch
        if wide < high:
            rows -= (crops * self.side - int(height * wide)) // self.patch
        else:
            columns -= (self.side - int(width * high)) // self.patch
        columns, rows = ceil(columns / 2), ceil(rows / 2)
        whole = self.side // self.patch // 2
        # Each row of tokens ends in a mark, with one more between crops and whole.
        tokens = rows * (columns + 1) + 1 + whole * (whole + 1)
        return MediaItem(
            "image",
            tokens,
            patches=(crops + 1) * (self.side // self.patch) ** 2,
            inputs=(crops + 1) * RGB * self.side**2,
            sizing=self,
        )


@frozen
class ScaledCrops(ByImage):
    """Phi-3-vision's images, enlarged to as many crops as their shape allows.

    Source: vLLM 0.33.0 `models/phi3v.py` Phi3VProcessingInfo; the image processor that
    the checkpoints contain (calc_num_image_tokens_from_image_size).
    """

    most: int = _PHI3_CROPS
    keys: tuple[str, ...] = ("num_crops",)

    @property
    def largest(self) -> tuple[int, int]:
        """The dummy image, which the processor enlarges."""
        return 50, 8000

    def image(self, width: int, height: int) -> MediaItem:
        """Return an image: its long side in crops, as many as its shape allows."""
        ratio = max(width, height) / min(width, height)
        along = 1
        while (along + 1) * ceil((along + 1) / ratio) <= self.most:
            along += 1
        across = ceil(int(along * 336 / ratio) / 336)
        crops, rows = along * across, along if width < height else across
        return MediaItem(
            "image",
            (crops + 1) * 144 + 1 + (rows + 1) * 12,
            patches=(crops + 1) * (24 * 24 + 1),
            inputs=(crops + 1) * RGB * 336**2,
            sizing=self,
        )


@frozen
class PaddedPatches(ByImage):
    """Kimi-VL's images: patches as they are, up to a limit, merged two by two.

    Source: vLLM 0.33.0 `models/kimi_vl.py` KimiVLProcessingInfo get_num_image_tokens;
    in_token_limit as the checkpoints publish it, 16,384 in the one of 2506.
    """

    patch: int
    merged: int
    most: int = 4096
    """Patches of an image; larger ones are made smaller."""
    side: int = 1024
    """Pixels along the sides of the dummy image."""
    keys: tuple[str, ...] = ("in_token_limit",)

    @property
    def largest(self) -> tuple[int, int]:
        """The dummy image."""
        return self.side, self.side

    def image(self, width: int, height: int) -> MediaItem:
        """Return an image, its sides padded to those of whole tokens."""
        found = (width // self.patch) * (height // self.patch)
        if found > self.most:
            scale = sqrt(self.most / found)
            width, height = int(width * scale), int(height * scale)
        unit = self.patch * self.merged
        tokens = -(-width // unit) * -(-height // unit)
        patches = tokens * self.merged**2
        return MediaItem(
            "image",
            tokens,
            patches=patches,
            inputs=patches * RGB * self.patch**2,
            sizing=self,
        )


@frozen
class Spectrogram(BySides):
    """Phi-4-multimodal's sounds: steps of 10 milliseconds, several in a token.

    Source: vLLM 0.33.0 `models/phi4mm.py` get_audio_num_frames,
    _compute_audio_embed_size.
    """

    bins: int
    compression: int
    longest: int = 241_000
    """Samples of the longest dummy sound, 15 seconds."""
    options: tuple[str, ...] = ("length",)

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return a sound of at most this length."""
        del item
        return self.sound(min(sizes.length or self.longest, self.longest))

    def sound(self, length: int) -> MediaItem:
        """Return a sound of this many samples."""
        steps = max((length - 400) // 160 + 1, 1)
        tokens = -(-steps // self.compression)
        return MediaItem(
            "audio", tokens, patches=tokens, inputs=steps * self.bins, sizing=self
        )


@if_known
def phi4_image_items() -> Items:
    """Return 36 crops below each other, and the whole image."""
    sizing = PaddedCrops()
    return (sizing.image(*sizing.largest),)


@if_known
def phi4_audio_items(encoder: Facts, layer: Mapping[str, int]) -> Items:
    """Return 15 seconds of sound."""
    sizing = Spectrogram(
        bins=encoder.integer("input_size"), compression=int(layer["compression_rate"])
    )
    return (sizing.sound(sizing.longest),)


@if_known
def phi3_items() -> Items:
    """Return an image of 50 x 8,000 pixels, which the processor enlarges."""
    return (ScaledCrops().image(*ScaledCrops().largest),)
