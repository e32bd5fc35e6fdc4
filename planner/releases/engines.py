"""Facts of releases that decide which of vLLM's two engines serves a model.

Source of all: vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle.
"""

from __future__ import annotations

from planner.releases.number import Numbered


class EngineFacts(Numbered):
    """What a release did with its second engine, V1, already."""

    __slots__ = ()

    @property
    def has_only_v1(self) -> bool:
        """Whether there is no other engine."""
        return self.since(0, 11)

    @property
    def runs_states_v1(self) -> bool:
        """Whether models with states, encoder-decoders and GPUs before Ampere are."""
        return self.since(0, 10, 2)

    @property
    def runs_encoders_v1(self) -> bool:
        """Whether encoders without a KV cache are."""
        return self.since(0, 10, 1)

    @property
    def keeps_fp8_on_blackwell(self) -> bool:
        """Whether an FP8 KV cache is on B200."""
        return self.since(0, 10)

    @property
    def keeps_latent_fp8(self) -> bool:
        """Whether that of latent attention is on every GPU."""
        return self.since(0, 10, 2)
