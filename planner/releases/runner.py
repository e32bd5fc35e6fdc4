"""Facts of releases that decide which of vLLM's model runners serves a model."""

from __future__ import annotations

from planner.releases.number import Numbered

_FIRST = frozenset({"Qwen3ForCausalLM"})
_DENSE = _FIRST | {"LlamaForCausalLM", "MistralForCausalLM"}
_EXPERTS = frozenset(
    {"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"}
)
_WITH_NGRAMS = _EXPERTS | {
    "InklingForCausalLM",
    "InklingForConditionalGeneration",
    "LongcatFlashNgramForCausalLM",
}
_WITH_KIMI_K3 = _WITH_NGRAMS | {"KimiK3ForConditionalGeneration"}
_WITH_DEEPSEEK_V4 = _WITH_KIMI_K3 | {"DeepseekV4ForCausalLM"}


class RunnerFacts(Numbered):
    """Which models a release runs with its second model runner, unless told."""

    __slots__ = ()

    @property
    def has_v2_runner(self) -> bool:
        """Whether there is a second runner to ask for.

        Source: vLLM 0.12.0 `envs.py` VLLM_USE_V2_MODEL_RUNNER.
        """
        return self.since(0, 12)

    @property
    def runs_all_v2(self) -> bool:
        """Whether every model has it, whatever its kind.

        Source: vLLM 0.29.0 `config/vllm.py` use_v2_model_runner.
        """
        return self.since(0, 29)

    @property
    def v2_architectures(self) -> frozenset[str]:
        """Architectures that have it by name.

        Source: vLLM 0.22.0 `config/vllm.py` DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES.
        """
        named = (
            ((0, 28), _WITH_DEEPSEEK_V4),
            ((0, 27), _WITH_KIMI_K3),
            ((0, 26), _WITH_NGRAMS),
            ((0, 25), _EXPERTS),
            ((0, 24), _DENSE | _EXPERTS),
            ((0, 23), _DENSE),
            ((0, 22), _FIRST),
        )
        found = (names for since, names in named if self.since(*since))
        return next(found, frozenset())

    @property
    def runs_dense_v2(self) -> bool:
        """Whether all models without experts and states have it.

        Source: vLLM 0.25.0 `config/vllm.py` _is_default_v2_model_runner_model.
        """
        return self.since(0, 25)

    @property
    def runs_quantized_v2(self) -> bool:
        """Whether quantised models and experts have it where their name does.

        Source: vLLM 0.24.0 `config/vllm.py` _is_default_v2_model_runner_model.
        """
        return self.since(0, 24)

    @property
    def builds_towers_once(self) -> bool:
        """Whether only the first pipeline stage has the encoders of images and sounds.

        Source: vLLM 0.33.0 `models/interfaces.py` _mark_tower_model; 0.32.0 the same,
        which leaves them out of no stage.
        """
        return self.since(0, 33)

    @property
    def runs_hybrids_v2(self) -> bool:
        """Whether models with attention and states have it where their name does.

        Source: vLLM 0.27.0 `config/vllm.py` _is_default_v2_model_runner_model.
        """
        return self.since(0, 27)
