"""EngineSettings: the engine arguments as the user gave them, in vLLM's names.

None means not given; `planner.planning.defaults.resolve` fills in vLLM's defaults.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import fields
from math import prod
from typing import Any, TypeGuard

from planner.engine import human_numbers
from planner.engine.arguments import ARGUMENTS, Argument, Kind, has_key
from planner.engine.flags import flags as flags
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.server import SERVER_FLAGS, flag_named
from planner.errors import PlannerError, Refused, close_words
from planner.values import frozen


@frozen
class EngineSettings:
    """Engine arguments as given; `planner.engine.arguments` explains each.

    Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs; sizes are tokens, sequences,
    bytes or GPUs as their names say.
    """

    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | str | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | str | None = None
    num_gpu_blocks_override: int | None = None
    block_size: int | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    decode_context_parallel_size: int | None = None
    enable_expert_parallel: bool | None = None
    enforce_eager: bool | None = None
    cudagraph_capture_sizes: tuple[int, ...] | None = None
    max_cudagraph_capture_size: int | None = None
    optimization_level: int | None = None
    compilation_config: Mapping[str, Any] | None = None
    speculative_config: Mapping[str, Any] | None = None
    spec_method: str | None = None
    spec_model: str | None = None
    spec_tokens: int | None = None
    performance_mode: str | None = None
    async_scheduling: bool | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    mamba_block_size: int | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    gdn_prefill_backend: str | None = None
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = None
    attention_backend: str | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    language_model_only: bool | None = None
    limit_mm_per_prompt: Mapping[str, Any] | None = None
    mm_processor_kwargs: Mapping[str, Any] | None = None
    mm_encoder_tp_mode: str | None = None
    skip_mm_profiling: bool | None = None
    enable_mm_embeds: bool | None = None
    disable_chunked_mm_input: bool | None = None
    mm_processor_cache_gb: float | None = None
    mm_processor_cache_type: str | None = None
    mm_shm_cache_max_object_size_mb: int | None = None
    mm_ipc_gpu_memory_gb: float | None = None
    media_io_kwargs: Mapping[str, Any] | None = None
    cpu_offload_gb: float | None = None
    cpu_offload_params: tuple[str, ...] | None = None
    offload_backend: str | None = None
    offload_group_size: int | None = None
    offload_num_in_group: int | None = None
    offload_prefetch_step: int | None = None
    offload_params: tuple[str, ...] | None = None
    kv_offloading_size: float | None = None
    enable_eplb: bool | None = None
    eplb_config: Mapping[str, Any] | None = None
    enable_lora: bool | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    lora_dtype: str | None = None
    fully_sharded_loras: bool | None = None
    max_cpu_loras: int | None = None
    lora_target_modules: tuple[str, ...] | None = None
    enable_tower_connector_lora: bool | None = None
    specialize_active_lora: bool | None = None
    enable_mixed_moe_lora_format: bool | None = None
    enable_moe_shared_loras: bool | None = None
    max_lora_cls_labels: int | None = None
    runner: str | None = None
    convert: str | None = None
    hf_overrides: Mapping[str, Any] | None = None
    disable_sliding_window: bool | None = None
    enable_prompt_embeds: bool | None = None
    attention_config: Mapping[str, Any] | None = None
    kernel_config: Mapping[str, Any] | None = None
    moe_backend: str | None = None
    trust_remote_code: bool | None = None
    node_memory_gib: float | None = None
    node_gpus: int | None = None
    interconnect: str | None = None
    disk_gb_per_second: float | None = None
    pcie_gb_per_second: float | None = None
    compile_cache: str | None = None
    sampler: str | None = None
    others: tuple[tuple[str, object], ...] = ()
    """Arguments that no rule reads as a field, kept for the command line."""
    server: tuple[tuple[str, object], ...] = ()
    """Flags of the server, kept for the command line: without effect on memory."""

    @property
    def gpus_total(self) -> int:
        """GPUs in all: tensor x pipeline x data parallel."""
        sizes = (
            self.tensor_parallel_size,
            self.pipeline_parallel_size,
            self.data_parallel_size,
        )
        return prod(size or 1 for size in sizes)


_FIELDS = tuple(
    field.name
    for field in fields(EngineSettings)
    if field.name not in ("others", "server")
)


def settings_from(
    engine_args: Mapping[str, Any], release: Release = NEWEST_RELEASE
) -> EngineSettings:
    """Check engine arguments and return them as settings; texts as vLLM reads them.

    Raises:
        PlannerError: for an unknown argument or an invalid value.
    """
    given: dict[str, Any] = {}
    others: list[tuple[str, object]] = []
    server: list[tuple[str, object]] = []
    for name, value in engine_args.items():
        argument = ARGUMENTS.get(name)
        if argument is None:
            if name not in SERVER_FLAGS:
                raise unknown_argument(name)
            SERVER_FLAGS[name].check(value)
            server.append((name, value))
            continue
        read = human_numbers.checked(argument, value, release)
        if read is not None:
            _check(argument, read)
        if argument.is_modelled:
            given[name] = _typed(argument, read)
        else:
            others.append((name, read))
    return EngineSettings(**given, others=tuple(others), server=tuple(server))


def table(settings: EngineSettings, name: str) -> Mapping[str, Any]:
    """Return a modelled argument that is a table, with names as vLLM reads them.

    Raises:
        PlannerError: for text that is not JSON, or JSON that is not a table.
    """
    given = getattr(settings, name)
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise PlannerError(
                f"{name}={given!r} is not JSON ({error}). Write a table such as "
                f"{json.dumps(ARGUMENTS[name].example or {})}."
            ) from None
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise PlannerError(
            f"{name}={given!r}: names and values are needed, such as "
            f"{json.dumps(ARGUMENTS[name].example or {})}."
        )
    return {str(key).replace("-", "_"): value for key, value in given.items()}


_MAY_BE_TEXT = ("attention_config", "kernel_config", "hf_overrides")
"""Tables that `table` reads from JSON as well."""
_DEEPEST = 100
"""Tables in tables; vLLM's own have a few."""
_CLASSES = {
    "attention_config": "AttentionConfig",
    "kernel_config": "KernelConfig",
    "compilation_config": "CompilationConfig",
    "speculative_config": "SpeculativeConfig",
}
"""vLLM's classes of tables whose keys it checks."""


def check_keys(name: str, entries: Mapping[str, Any], release: Release) -> None:
    """Refuse the keys of a table that a release does not have.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/utils.py` config (extra="forbid").
    """
    for key, value in entries.items():
        if not has_key(name, key, release):
            raise Refused(
                f"1 validation error for {_CLASSES[name]}\n{key}\n  Unexpected "
                "keyword argument [type=unexpected_keyword_argument, "
                f"input_value={value!r}, input_type={type(value).__name__}]"
            )


def moe_backend(settings: EngineSettings) -> str:
    """Return the requested kernel of experts, as vLLM spells it; auto where none is.

    Source: vLLM 0.33.0 `config/kernel.py` _normalize_moe_backend.
    """
    given = settings.moe_backend or table(settings, "kernel_config").get("moe_backend")
    return str(given or "auto").lower().replace("-", "_")


def attention_backend(settings: EngineSettings) -> str | None:
    """Return the requested kernel of attention; None where vLLM chooses.

    Raises:
        Refused: in vLLM's words, where two arguments name one.

    Source: vLLM 0.33.0 `engine/arg_utils.py` create_engine_config.
    """
    given = table(settings, "attention_config").get("backend")
    if given is None or str(given).lower() == "auto":
        return settings.attention_backend
    if settings.attention_backend is not None:
        raise Refused(
            "attention_backend and attention_config.backend are mutually exclusive"
        )
    return str(given)


def _typed(argument: Argument, value: Any) -> Any:  # noqa: ANN401 - any argument's
    if argument.is_list and isinstance(value, list | set | frozenset):
        return tuple(value)
    if argument.kind is Kind.SHARE and value is not None:
        # vLLM's configuration class converts it too, and logs 1 as 1.0.
        return float(value)
    return value


def unknown_argument(name: str) -> PlannerError:
    """Return the error that no release has an argument, with the nearest name."""
    known = [*ARGUMENTS, *SERVER_FLAGS]
    short = flag_named(f"-{name}")  # tp, as in -tp
    near = [short[0]] if short else close_words(name, known, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return PlannerError(f"{name!r} is not an engine argument of vLLM.{hint}")


def _check(argument: Argument, value: object) -> None:
    """Refuse a value that vLLM rejects or the planner cannot plan."""
    if _is_deep(value, _DEEPEST):
        raise PlannerError(f"{argument.name}: nested more than {_DEEPEST} deep.")
    refusal = _refusal(argument, value)
    if refusal:
        raise PlannerError(f"{argument.name}={value!r}: {refusal}")


def _is_deep(value: object, left: int) -> bool:
    """Return whether lists and tables lie more than `left` deep in each other."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return left == 0 or any(_is_deep(inner, left - 1) for inner in value)


_LISTS = (list, tuple, set, frozenset)
_NEEDED = {
    Kind.SWITCH: "True or False is",
    Kind.NUMBERS: "a list of whole numbers from 1, such as [1, 2], is",
}


def _is_of_kind(argument: Argument, value: object) -> bool:
    """Return whether a rule can read the value as what it is."""
    if argument.kind is Kind.NUMBERS:
        kinds = {type(one) for one in value} if isinstance(value, _LISTS) else {None}
        return kinds <= {int}
    if argument.kind is Kind.SWITCH:
        return value in (True, False)
    return not argument.is_text or isinstance(value, str)


def _refusal(argument: Argument, value: object) -> str:
    """Return what is wrong with a value, as a sentence; empty for a correct one."""
    if argument.is_modelled and not _is_of_kind(argument, value):
        return f"{_NEEDED.get(argument.kind, 'a text is')} needed."
    if argument.kind is Kind.LENGTH:
        return _length_refusal(argument, value)
    if argument.kind is Kind.SHARE:
        needed = "a number above 0 and at most 1 is needed, such as 0.92."
        return "" if _is_number(value) and 0 < value <= 1 else needed
    if argument.least is not None:
        return _number_refusal(argument, argument.least, value)
    if argument.kind is Kind.CHOICE:
        return _choice_refusal(argument, value)
    return "" if argument.example is None else _type_refusal(argument, value)


def _length_refusal(argument: Argument, value: object) -> str:
    if value in ("auto", -1):
        return ""
    if not _is_whole(value) or value < 1:
        return "a whole number from 1, -1 or auto is needed."
    return _too_much(argument, value)


def _number_refusal(argument: Argument, least: int, value: object) -> str:
    if argument.kind is not Kind.NUMBER:
        if not _is_whole(value) or value < least:
            return f"a whole number from {least} is needed."
        return _too_much(argument, value, "; no machine has more")
    if _is_number(value) and value >= least and not _too_much(argument, value):
        return ""
    return f"a number of GiB from {least} to {argument.most:,} is needed."


def _too_much(argument: Argument, value: float, why: str = "") -> str:
    if argument.most is None or value <= argument.most:
        return ""
    return f"at most {argument.most:,} is planned{why}."


def _choice_refusal(argument: Argument, value: object) -> str:
    if argument.checked_by_rule or value in (*argument.taken, *argument.earlier):
        return ""
    return f"use one of {', '.join(map(str, argument.taken))}."


def _type_refusal(argument: Argument, value: object) -> str:
    """Require the type of the argument's example: a list or a mapping."""
    if argument.is_list:
        is_right, what = _are_names(value), "a list of names is"
    elif argument.name in _MAY_BE_TEXT and isinstance(value, str):
        return ""
    else:
        is_right, what = isinstance(value, Mapping), "names and values are"
    return "" if is_right else f"{what} needed, such as {argument.example}."


def _are_names(value: object) -> bool:
    if not isinstance(value, _LISTS):
        return False
    return all(isinstance(name, str) for name in value)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def command(
    model: str, settings: EngineSettings, release: Release = NEWEST_RELEASE
) -> str:
    """Return a release's `vllm serve` command for these settings.

    >>> command("org/model", EngineSettings(tensor_parallel_size=2, enforce_eager=True))
    'vllm serve org/model --tensor-parallel-size 2 --enforce-eager'
    """
    return shlex.join(serve_words(model, given_arguments(settings), release))


def serve_words(
    model: str, arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> list[str]:
    """Return the words of `vllm serve`; a folder named like a flag gets a prefix."""
    named = f"./{model}" if model.startswith("-") else model
    return ["vllm", "serve", named, *flags(arguments, release)]


def given_arguments(settings: EngineSettings) -> dict[str, Any]:
    """Return the arguments that were given, by vLLM's names."""
    named = {name: getattr(settings, name) for name in _FIELDS}
    given = {**named, **dict(settings.others), **dict(settings.server)}
    return {name: value for name, value in given.items() if value is not None}
