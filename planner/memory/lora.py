"""What enable_lora keeps on a GPU: room for the adapters beside each layer.

vLLM wraps every linear layer of the model (and, where its class says so, the word
embeddings and the head) once the weights are loaded, and allocates the two factors of
`max_loras` adapters of rank `max_lora_rank` for each. That lies within "Model loading
took".

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._create_lora_modules,
`lora/layers/` create_lora_weights, `lora/punica_wrapper/`; releases differ as said
below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from planner.engine import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.layers import Module, Part, VocabParallelEmbedding
from planner.memory.lora_stacks import (
    HEAD_PADDING,
    EmbeddingStacks,
    IndexBuffers,
    Linear,
    LinearStacks,
    LogitsStacks,
    LoRAConfig,
    round_up,
)
from planner.model import LayerKind, ModelArchitecture
from planner.parallel import pad_vocabulary
from planner.releases import Release

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_QUANTIZATIONS = (None, "auto_awq", "auto_gptq", "compressed-tensors", "fp8")
"""Methods that leave the sizes a layer declares alone, by which factors are made."""


def lora_config(
    settings: EngineSettings, release: Release, *, max_num_seqs: int
) -> LoRAConfig | None:
    """Return the adapters asked for; None without.

    Raises:
        Refused: in vLLM's words.
    """
    if not settings.enable_lora:
        return None
    rank = 16 if settings.max_lora_rank is None else settings.max_lora_rank
    loras = settings.max_loras or 1
    _check_rank(rank, release)
    on_host = settings.max_cpu_loras
    if on_host and on_host < loras:
        end = "." if release.since(0, 14) else ""
        raise Refused(f"max_cpu_loras ({on_host}) must be >= max_loras ({loras}){end}")
    return LoRAConfig(
        max_loras=loras,
        max_lora_rank=rank,
        dtype=None if settings.lora_dtype in (None, "auto") else settings.lora_dtype,
        is_fully_sharded=bool(settings.fully_sharded_loras),
        max_num_seqs=max_num_seqs,
        release=release,
    )


def _check_rank(rank: int, release: Release) -> None:
    """Refuse a rank that vLLM does not list.

    Source: vLLM 0.11.0 `config/lora.py` (a tuple); 0.11.1 MaxLoRARanks (a Literal).
    """
    if not release.since(0, 11, 1):
        if rank not in _RANKS[1:]:
            raise Refused(f"max_lora_rank ({rank}) must be one of {_RANKS[1:]}.")
        return
    if rank not in _RANKS:
        *others, last = map(str, _RANKS)
        raise Refused(
            "1 validation error for LoRAConfig\nmax_lora_rank\n  Input should be "
            f"{', '.join(others)} or {last} [type=literal_error, input_value={rank}, "
            "input_type=int]"
        )


def graph_cases(config: LoRAConfig | None, *, uses_v2_runner: bool) -> int:
    """Return how many CUDA graphs vLLM captures for each size of a batch.

    Two where it keeps one for batches with adapters and one for those without.

    Source: vLLM 0.11.1 `config/compilation.py` cudagraph_specialize_lora; the second
    model runner heeds it from 0.24.0 (`v1/worker/gpu/cudagraph_utils.py`).
    """
    if config is None:
        return 1
    first = (0, 24, 0) if uses_v2_runner else (0, 11, 1)
    return 2 if config.release.since(*first) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelClass:
    """Which of a class's modules beside the linear ones adapters may change."""

    has_embeddings: bool = False
    """embedding_modules: word embeddings and head."""
    shares_head_module: bool = False
    """Whether a tied head is the embeddings' own module, which is wrapped twice."""


def _model_class(model: ModelArchitecture, release: Release) -> _ModelClass:
    """Return vLLM's class of a dense text model.

    Source: vLLM `models/llama.py`, `qwen2.py`, `qwen3.py`, `gemma.py`, `gemma2.py`,
    `gemma3.py`, `phi3.py`, `granite.py`; 0.15.0 `mistral.py`: embedding_modules.
    """
    llama = _ModelClass(has_embeddings=True)
    plain = _ModelClass()
    qwen3 = _ModelClass(
        has_embeddings=release.since(0, 16),
        shares_head_module=not release.since(0, 28),
    )
    known = {
        "GemmaForCausalLM": plain,
        "Gemma2ForCausalLM": plain,
        "Gemma3ForCausalLM": plain,
        "GraniteForCausalLM": llama,
        "LlamaForCausalLM": llama,
        "MistralForCausalLM": plain if release.since(0, 15) else llama,
        "Phi3ForCausalLM": llama,
        "Qwen2ForCausalLM": plain,
        "Qwen3ForCausalLM": qwen3,
    }
    if model.architecture not in known or model.is_pooling or model.is_multimodal:
        raise _unknown(f"with {model.architecture}")
    if model.quantization not in _QUANTIZATIONS:
        raise _unknown(f"with weights quantised by {model.quantization}")
    return known[model.architecture]


def _unknown(what: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"enable_lora {what} is not modelled yet. Leave enable_lora out."
    )


def with_adapters(
    model: ModelArchitecture, config: LoRAConfig | None
) -> ModelArchitecture:
    """Return the model with what adapters keep beside each of its modules.

    Raises:
        UnknownArchitecture: naming enable_lora, where it is not certain what is kept.
        Refused: in vLLM's words.
    """
    if config is None:
        return model
    kept = _model_class(model, config.release)
    kinds = tuple(_kind_with_adapters(kind, config) for kind in model.layer_kinds)
    buffers = IndexBuffers(config=config)
    model = replace(model, layer_kinds=kinds, every_stage=(*model.every_stage, buffers))
    return _with_vocabulary(model, config, kept) if kept.has_embeddings else model


def _kind_with_adapters(kind: LayerKind, config: LoRAConfig) -> LayerKind:
    linear = [module for module in kind.modules if isinstance(module, Linear)]
    if any(module.part in (Part.ROUTER, Part.EXPERTS) for module in kind.modules):
        raise _unknown("with routed experts")
    stacks = tuple(LinearStacks(base=module, config=config) for module in linear)
    return replace(kind, modules=(*kind.modules, *stacks))


def _with_vocabulary(
    model: ModelArchitecture, config: LoRAConfig, kept: _ModelClass
) -> ModelArchitecture:
    """Add the factors of word embeddings and head, and rows for added words."""
    _check_vocabulary(model.vocab_size, config)
    heads = [m for m in model.last_stage if m.part is Part.LM_HEAD]
    last: list[Module] = [
        LogitsStacks(
            vocab_size=model.vocab_size, hidden_size=model.hidden_size, config=config
        )
    ]
    if not heads and kept.shares_head_module:
        last += [
            EmbeddingStacks(base=module, config=config)
            for module in model.first_stage
            if isinstance(module, VocabParallelEmbedding)
        ]
    return replace(
        model,
        first_stage=_with_embeddings(model.first_stage, config),
        tied_embeddings=_with_embeddings(model.tied_embeddings, config),
        last_stage=(*(_widened(m, config) for m in model.last_stage), *last),
    )


def _with_embeddings(
    modules: tuple[Module, ...], config: LoRAConfig
) -> tuple[Module, ...]:
    return tuple(chain(*(_embeddings(module, config) for module in modules)))


def _embeddings(module: Module, config: LoRAConfig) -> tuple[Module, ...]:
    if not isinstance(module, VocabParallelEmbedding):
        return (module,)
    stacks = EmbeddingStacks(base=module, config=config)
    return _widened(module, config), stacks


def _widened(module: Module, config: LoRAConfig) -> Module:
    """Return embeddings or head with rows for the words that adapters add.

    Source: vLLM 0.11.2 `models/llama.py` LlamaModel (lora_vocab), LlamaForCausalLM
    (unpadded_vocab_size, padding_size).
    """
    extra = config.extra_vocabulary
    if not extra or not isinstance(module, VocabParallelEmbedding):
        return module
    if module.part is Part.LM_HEAD:
        rows = round_up(module.num_embeddings, HEAD_PADDING) + extra
    else:
        rows = pad_vocabulary(module.num_embeddings) + extra * config.max_loras
    return replace(module, num_embeddings=rows)


def _check_vocabulary(vocab_size: int, config: LoRAConfig) -> None:
    """Refuse a vocabulary too large for the kernels of the head.

    Source: vLLM 0.33.0 `lora/layers/logits_processor.py` create_lora_weights; other
    words and another limit until 0.16.0.
    """
    if config.release.since(0, 17):
        if vocab_size > 258048:  # noqa: PLR2004 - vLLM's number
            raise Refused("When using LoRA, vocab size must be <= 258048")
    elif vocab_size + config.extra_vocabulary > 257024:  # noqa: PLR2004 - as above
        raise Refused(
            "When using LoRA, vocab size must be 32000 >= vocab_size <= 257024"
        )
