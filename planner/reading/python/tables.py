"""Functions and classes of Python that start vLLM: which argument is which of vLLM's.

Source: vLLM 0.33.0 `entrypoints/llm.py` LLM, `engine/arg_utils.py` EngineArgs; Ray 2.56
`ray.serve.llm` LLMConfig, `ray.data.llm` vLLMEngineProcessorConfig; unsloth 2025.11
`models/loader.py`, `unsloth_zoo/vllm_utils.py` load_vllm; TRL 0.25
`trainer/grpo_config.py`; langchain-community 0.4 `llms/vllm.py`; llama-index-llms-vllm
0.6 `base.py`; outlines 0.1 `models/vllm.py`; lighteval 0.12
`models/vllm/vllm_model.py`; lm-evaluation-harness 0.4 `models/vllm_causallms.py`;
ms-swift 3.10 `llm/infer/infer_engine`;
Beam 0.2 `integrations/vllm.py`; docker 7.1 `models/containers.py`; kubernetes 34
`V1Container`; RunPod 1.7 `api/ctl_commands.py`; Airflow cncf.kubernetes 10
`KubernetesPodOperator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from planner.reading.reading import Kind
from planner.values import frozen


@frozen
class Starter:
    """A function or a class that starts vLLM."""

    modules: tuple[str, ...]
    """Packages that it comes from."""
    entrypoint: str = "llm"
    kind: Kind = Kind.PYTHON
    first: tuple[str, ...] = ("model",)
    """Arguments that may come without a name."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Its own name of an argument, and vLLM's."""
    tables: tuple[str, ...] = ()
    """Arguments that are tables of vLLM's."""
    takes_all: bool = True
    """Whether every other argument is one of vLLM's, by vLLM's name."""
    needs: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """What arguments must be for it to start vLLM; None: not given."""
    model_of: tuple[str, ...] = ()
    """Functions of which another call names the model."""
    means: Mapping[str, tuple[str, object]] = field(default_factory=dict)
    """Switches, each with the argument of vLLM that it sets where it is on."""
    own: frozenset[str] = frozenset()
    """Arguments that it reads itself, where it takes all others."""
    trainer: str = ""
    """The framework, a row of `frameworks.json`, that trains on the same GPUs."""


_VLLM = ("vllm",)
_OF_RAY = Starter(
    modules=("ray",),
    entrypoint="engine",
    kind=Kind.RAY,
    first=(),
    names={"model_source": "model", "model": "model"},
    tables=("engine_kwargs",),
    takes_all=False,
)
_OF_TRL = Starter(
    modules=("trl",),
    first=(),
    names={
        "vllm_gpu_memory_utilization": "gpu_memory_utilization",
        "vllm_tensor_parallel_size": "tensor_parallel_size",
        "vllm_max_model_length": "max_model_len",
        "vllm_max_model_len": "max_model_len",
        "vllm_enable_sleep_mode": "enable_sleep_mode",
        "vllm_model_impl": "model_impl",
        "vllm_quantization": "quantization",
    },
    takes_all=False,
    needs={"use_vllm": (True,), "vllm_mode": (None, "colocate")},
    model_of=("Trainer",),
    trainer="TRL",
)
_OF_UNSLOTH = Starter(
    modules=("unsloth",),
    first=("model_name", "max_seq_length"),
    names={
        "model_name": "model",
        "max_seq_length": "max_model_len",
        "gpu_memory_utilization": "gpu_memory_utilization",
        "max_lora_rank": "max_lora_rank",
        "max_loras": "max_loras",
        "enable_lora": "enable_lora",
        "max_num_seqs": "max_num_seqs",
    },
    takes_all=False,
    means={"load_in_4bit": ("quantization", "bitsandbytes")},
    needs={"fast_inference": (True,)},
)
_LOADS_VLLM = Starter(
    modules=("unsloth_zoo",),
    first=_OF_UNSLOTH.first,
    names=_OF_UNSLOTH.names,
    takes_all=False,
)
_NAMED = {"model_name": "model", "model_id_or_path": "model", "pretrained": "model"}
_LENGTHS = {"max_length": "max_model_len", "max_model_length": "max_model_len"}
_PLAIN = {
    name: name
    for name in (
        "model tensor_parallel_size trust_remote_code dtype quantization revision "
        "tokenizer seed enforce_eager gpu_memory_utilization max_model_len"
    ).split()
}

STARTERS: Mapping[str, Starter] = {
    "LLM": Starter(modules=_VLLM, first=("model", "runner", "convert")),
    "AsyncLLM": Starter(modules=_VLLM, first=("model", "runner", "convert")),
    "EngineArgs": Starter(modules=_VLLM, entrypoint="engine"),
    "AsyncEngineArgs": Starter(modules=_VLLM, entrypoint="engine"),
    "LLMConfig": Starter(
        modules=("ray",),
        entrypoint="serve",
        kind=Kind.RAY,
        first=(),
        tables=("engine_kwargs",),
        takes_all=False,
    ),
    "vLLMEngineProcessorConfig": _OF_RAY,
    "VLLMEngineProcessorConfig": _OF_RAY,
    "vLLMEngineConfig": _OF_RAY,
    "FastLanguageModel.from_pretrained": _OF_UNSLOTH,
    "FastModel.from_pretrained": _OF_UNSLOTH,
    "FastVisionModel.from_pretrained": _OF_UNSLOTH,
    "load_vllm": _LOADS_VLLM,
    **dict.fromkeys(
        ("GRPOConfig", "RLOOConfig", "OnlineDPOConfig", "GOLDConfig", "NashMDConfig"),
        _OF_TRL,
    ),
    "VLLM": Starter(
        modules=("langchain", "langchain_community", "lm_eval"),
        names={**_PLAIN, **_NAMED, **_LENGTHS},
        tables=("vllm_kwargs",),
        takes_all=False,
    ),
    "Vllm": Starter(
        modules=("llama_index",),
        names=_PLAIN,
        tables=("vllm_kwargs",),
        takes_all=False,
    ),
    "VLLMArgs": Starter(modules=("beam",), entrypoint="serve", first=()),
    "simple_evaluate": Starter(
        modules=("lm_eval",),
        first=(),
        names={**_NAMED, **_LENGTHS},
        tables=("model_args",),
        takes_all=False,
        needs={"model": ("vllm", "vllm-vlm")},
    ),
    "models.vllm": Starter(modules=("outlines",)),
    "VLLMModelConfig": Starter(
        modules=("lighteval",),
        first=(),
        names={**_NAMED, **_LENGTHS},
        own=frozenset(
            "generation_parameters use_chat_template system_prompt batch_size "
            "is_async cache_dir override_chat_template multichoice_continuations_"
            "start_space pairwise_tokenization subfolder".split()
        ),
    ),
    "VllmEngine": Starter(
        modules=("swift",),
        first=("model_id_or_path",),
        names=_NAMED,
        own=frozenset(
            "torch_dtype adapters max_batch_size use_hf hub_token model_type template "
            "use_async_engine use_audio_in_video".split()
        ),
    ),
}
"""By the last of its names, or the last two of a method."""

UNNAMED_MODULES = frozenset({"VLLM", "Vllm", "models.vllm", "load_vllm"})
"""Names that start vLLM only where the text imports them from their package."""

IMAGES = ("image", "image_name", "image_uri", "imageName", "docker_image")
"""Arguments that name a container's image."""
COMMANDS = ("command", "cmds", "entrypoint")
ARGUMENTS_OF_IMAGES = (
    "args",
    "arguments",
    "docker_args",
    "container_args",
    "command_args",
)
"""Arguments that hold the words of a container: its program, and what that is given."""
VARIABLES = ("environment", "env", "env_vars", "envs", "environment_variables")
GPUS = ("gpu", "gpus", "accelerators", "accelerator", "accelerator_type", "gpu_type")
GPU_IDS = ("gpu_type_id", "gpu_type_ids", "gpuTypeId")
COUNTS = ("gpu_count", "gpuCount", "num_gpus")
HOLD_COUNTS = (
    "device_requests",
    "resources",
    "limits",
    "container_resources",
    "ray_actor_options",
)
"""Arguments that hold a number of GPUs further inside."""
SMALLER = {"A100": "A100-40GB", "V100": "V100-16GB"}
"""Names that mean the card with less memory at Modal."""
WORDS = ("help", "description", "epilog", "doc", "title")
"""Arguments that are words for people."""
PRINTS = frozenset(
    "print info debug warning error critical exception log echo secho warn fail exit "
    "add_argument ArgumentParser add_parser Option Argument Field field help".split()
)
"""Functions that are given a command to show, and start none."""
