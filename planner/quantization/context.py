"""What a reader of a quantisation config may know of the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.model_files import ModelFiles

_FLOATS = ("F16", "BF16", "F32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The model that a quantisation config belongs to."""

    model_type: str = ""
    """Of config.json."""
    text_model_type: str = ""
    """Of its language model, the same where there is but one."""
    prefix_renames: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the checkpoint, and what vLLM's class calls them."""
    files: ModelFiles | None = None
    """None for a model that was not read from files."""

    def vllm_name(self, name: str) -> str:
        """Return vLLM's name of a checkpoint's layer.

        Source: vLLM 0.33.0 `models/utils.py` WeightsMapper: prefixes in order, each
        at most once.
        """
        for old, new in self.prefix_renames:
            if name.startswith(old):
                name = name.replace(old, new, 1)
        return name

    def vllm_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return vLLM's names of several layers."""
        return tuple(self.vllm_name(name) for name in names)

    def quantised_layers(self) -> frozenset[str]:
        """Return layers that hold more than floats, where headers are at hand.

        Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py` maybe_update_config.
        """
        return frozenset(
            name.rpartition(".")[0]
            for name, dtype in self._tensors()
            if dtype not in _FLOATS
        )

    def plain_layers(self) -> frozenset[str]:
        """Return layers that hold floats only, where headers are at hand.

        Source: vLLM 0.33.0 `layers/quantization/auto_awq.py` maybe_update_config.
        """
        every = frozenset(name.rpartition(".")[0] for name, _ in self._tensors())
        return every - self.quantised_layers()

    def _tensors(self) -> tuple[tuple[str, str], ...]:
        shapes = self.files.tensor_shapes if self.files is not None else {}
        return tuple((name, dtype) for name, (dtype, _) in shapes.items())
