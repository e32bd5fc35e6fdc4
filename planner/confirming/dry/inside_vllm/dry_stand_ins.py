"""Processors in place of those that checkpoints bring as Python code.

They answer with the shapes of the published ones. Pixels are zeros: the profile run
reads no values. A file beside config.json names each class, as `auto_map` would.
"""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import Any

import torch
from transformers import BatchFeature, ProcessorMixin
from transformers.image_processing_utils import BaseImageProcessor

Size = tuple[int, int]
"""Width and height, or columns and rows."""


class MiniCPMVImageProcessor(BaseImageProcessor):
    """Images in slices, each of its patches in a row.

    Source: Transformers 5.20 MiniCPMV4_6ImageProcessor (grids, sizes);
    preprocessor_config.json of MiniCPM-V-2_6; vLLM 0.33.0 `models/minicpmv.py`,
    `transformers_utils/processors/minicpmv.py` (what is called).
    """

    model_input_names = ("pixel_values",)

    def __init__(
        self,
        max_slice_nums: int = 9,
        scale_resolution: int = 448,
        patch_size: int = 14,
        image_feature_size: int = 64,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self.max_slice_nums, self.scale_resolution = max_slice_nums, scale_resolution
        self.patch_size, self.image_feature_size = patch_size, image_feature_size
        self.im_start_token, self.im_end_token = "<image>", "</image>"
        self.im_id_start, self.im_id_end = "<image_id>", "</image_id>"
        self.slice_start_token, self.slice_end_token = "<slice>", "</slice>"
        self.unk_token, self.use_image_id, self.version = "<unk>", True, 2.6

    def get_sliced_grid(
        self, image_size: Size, max_slice_nums: int | None = None, *_more: object
    ) -> Size | None:
        """Return columns and rows of the slices; None: the image is one."""
        most = max_slice_nums or self.max_slice_nums
        width, height = image_size
        wanted = min(ceil(width * height / self.scale_resolution**2), most)
        if wanted <= 1:
            return None
        counts = (n for n in (wanted - 1, wanted, wanted + 1) if 1 < n <= most)
        grids = [(m, n // m) for n in counts for m in range(1, n + 1) if n % m == 0]
        shape = log(width / height)
        return min(grids, key=lambda grid: abs(shape - log(grid[0] / grid[1])))

    def get_slice_image_placeholder(
        self,
        image_size: Size,
        image_idx: int = 0,
        max_slice_nums: int | None = None,
        use_image_id: bool | None = None,
    ) -> str:
        """Return the text that stands for an image: its copy, then rows of slices."""
        tokens = self.unk_token * self.image_feature_size
        whole = f"{self.im_start_token}{tokens}{self.im_end_token}"
        if self.use_image_id if use_image_id is None else use_image_id:
            whole = f"{self.im_id_start}{image_idx}{self.im_id_end}{whole}"
        grid = self.get_sliced_grid(image_size, max_slice_nums)
        if grid is None:
            return whole
        row = f"{self.slice_start_token}{tokens}{self.slice_end_token}" * grid[0]
        return whole + "\n".join([row] * grid[1])

    def slices(self, image_size: Size, max_slice_nums: int | None = None) -> list[Size]:
        """Return the pixels of the small copy and of every slice."""
        grid = self.get_sliced_grid(image_size, max_slice_nums)
        if grid is None:
            return [self._fitted(image_size, enlarges=True)]
        part = tuple(
            self._whole(side, n) // n for side, n in zip(image_size, grid, strict=True)
        )
        each = self._fitted((part[0], part[1]), enlarges=True)
        whole = self._fitted(image_size, enlarges=False)
        return [whole, *[each] * (grid[0] * grid[1])]

    def _fitted(self, size: Size, *, enlarges: bool) -> Size:
        width, height = size
        if enlarges or width * height > self.scale_resolution**2:
            ratio = width / height
            height = int(self.scale_resolution / sqrt(ratio))
            width = int(height * ratio)
        patch = self.patch_size
        return self._whole(width, patch), self._whole(height, patch)

    @staticmethod
    def _whole(length: int, unit: int) -> int:
        return max(round(length / unit) * unit, unit)

    def preprocess(
        self, images: Any, max_slice_nums: int | None = None, **_others: object
    ) -> BatchFeature:
        """Return pixels, sizes and grids of patches, for each image of each prompt."""
        nested = images if isinstance(images, list | tuple) else [images]
        if not nested or not isinstance(nested[0], list | tuple):
            nested = [nested]
        prompts = [[_size_of(image) for image in prompt] for prompt in nested]
        slices = [
            [one for size in sizes for one in self.slices(size, max_slice_nums)]
            for sizes in prompts
        ]
        patch = self.patch_size
        return BatchFeature(
            data={
                "pixel_values": [
                    [torch.zeros(3, patch, w * h // patch) for w, h in prompt]
                    for prompt in slices
                ],
                "image_sizes": prompts,
                "tgt_sizes": [
                    torch.tensor([(h // patch, w // patch) for w, h in prompt])
                    for prompt in slices
                ],
            }
        )


class MiniCPMVProcessor(ProcessorMixin):
    """A tokenizer beside the slices."""

    attributes = ("image_processor", "tokenizer")
    image_processor_class = "AutoImageProcessor"
    tokenizer_class = "AutoTokenizer"

    def __init__(self, image_processor: Any = None, tokenizer: Any = None) -> None:
        super().__init__(image_processor, tokenizer)
        self.version = image_processor.version

    def __call__(self, text: Any, images: Any = None, **others: Any) -> BatchFeature:
        """Return pixels, and tokens of texts without their images'."""
        texts = [text] if isinstance(text, str) else text
        ids = [torch.tensor(self.tokenizer.encode(one)) for one in texts]
        most = others.get("max_slice_nums")
        found = {} if images is None else self.image_processor(images, most)
        return BatchFeature(data={"input_ids": ids, **found})


class Phi3VImageProcessor(BaseImageProcessor):
    """Images in crops of 336 x 336 pixels, padded to as many as there may be.

    Source: preprocessor_config.json of Phi-3.5-vision-instruct; vLLM 0.33.0
    `models/phi3v.py`; the rule of `planner/models/families/towers/crops.py`.
    """

    model_input_names = ("pixel_values",)

    def __init__(self, num_crops: int = 16, **others: Any) -> None:
        super().__init__(**others)
        self.num_crops = num_crops

    def crops(self, width: int, height: int) -> Size:
        """Return columns and rows of crops: the long side gets as many as fit."""
        ratio = max(width, height) / min(width, height)
        along = 1
        while (along + 1) * ceil((along + 1) / ratio) <= self.num_crops:
            along += 1
        across = ceil(int(along * 336 / ratio) / 336)
        return (across, along) if width < height else (along, across)

    def calc_num_image_tokens_from_image_size(self, width: int, height: int) -> int:
        """Return the tokens of an image: crops, a small copy, and ends of rows."""
        columns, rows = self.crops(width, height)
        return (columns * rows + 1) * 144 + 1 + (rows + 1) * 12

    def preprocess(self, images: Any, **_others: object) -> BatchFeature:
        """Return pixels and sizes of the images."""
        sizes = [_size_of(one) for one in _listed(images)]
        grids = [self.crops(*size) for size in sizes]
        crops = torch.zeros(len(sizes), self.num_crops + 1, 3, 336, 336)
        high_and_wide = torch.tensor([(rows * 336, cols * 336) for cols, rows in grids])
        return BatchFeature(
            data={
                "pixel_values": crops,
                "image_sizes": high_and_wide,
                "num_img_tokens": [
                    self.calc_num_image_tokens_from_image_size(*size) for size in sizes
                ],
            }
        )


class Phi3VProcessor(ProcessorMixin):
    """A tokenizer beside the crops."""

    attributes = ("image_processor", "tokenizer")
    image_processor_class = "AutoImageProcessor"
    tokenizer_class = "AutoTokenizer"

    def __init__(self, image_processor: Any = None, tokenizer: Any = None) -> None:
        super().__init__(image_processor, tokenizer)
        self.num_img_tokens = 144
        self.img_tokens = [f"<|image_{number}|>" for number in range(1, 1_000_000)]

    def calc_num_image_tokens_from_image_size(self, width: int, height: int) -> int:
        """Return the tokens of an image."""
        of_image = self.image_processor.calc_num_image_tokens_from_image_size
        return int(of_image(width=width, height=height))

    def __call__(self, text: Any, images: Any = None, **_others: Any) -> BatchFeature:
        """Return pixels, and tokens of texts without their images'."""
        texts = [text] if isinstance(text, str) else text
        ids = torch.tensor([self.tokenizer.encode(one) for one in texts])
        found = {} if images is None else self.image_processor(images)
        found = {name: found[name] for name in found if name != "num_img_tokens"}
        return BatchFeature(data={"input_ids": ids, **found})


def _listed(images: Any) -> list[Any]:
    return list(images) if isinstance(images, list | tuple) else [images]


def _size_of(image: Any) -> Size:
    """Return width and height of a picture, or of an array."""
    size = getattr(image, "size", None)
    if isinstance(size, tuple):
        return size[0], size[1]
    height, width = image.shape[:2] if image.shape[-1] in (1, 3) else image.shape[-2:]
    return int(width), int(height)
