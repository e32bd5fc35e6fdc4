"""compilation_config and optimization_level: which CUDA graphs a start captures.

Fusion passes replace two kernels by one and keep nothing, except for the fused
all-reduce, which has buffers (`planner.memory.lines.non_torch`). What else the settings
change is not counted: `planner/data/arguments.json` has it by key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings, check_keys
from planner.errors import PlannerError, Refused
from planner.models.architecture import ModelArchitecture
from planner.values import frozen

_MODES = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
_NO_COMPILATION, _VLLM_COMPILE = 0, 3
_SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
_BREAKABLE = frozenset(
    """
    AliceAIForCausalLM BeamForCausalLM DeepseekV32ForCausalLM DeepseekV41ForCausalLM
    DeepseekV4ForCausalLM DeepseekV4ForConditionalGeneration Dots3NoteForCausalLM
    Glm5NextForCausalLM Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM
    HYV4ForCausalLM InklingForCausalLM InklingForConditionalGeneration
    KimiK3ForConditionalGeneration KimiLinearForCausalLM MiniMaxM3SparseForCausalLM
    MiniMaxM3SparseForConditionalGeneration MuseSpark1xForCausalLM
    MuseSparkForConditionalGeneration Qwen4ExpForCausalLM
    Qwen4ExpForConditionalGeneration Step5ForCausalLM Step5ForConditionalGeneration
    """.split()
)
_KEEPS_FULL_GRAPHS = Change(
    since=(0, 30),
    what="Full CUDA graphs are kept where piecewise ones are not possible.",
    source="vLLM 0.30.0 `config/vllm.py` _normalize_piecewise_cudagraph_mode",
)
_CAPTURES_DECODING_OF_ENCODERS = Change(
    since=(0, 13),
    what="Encoder-decoder models have full CUDA graphs of decode steps.",
    source="vLLM 0.13.0 `config/vllm.py` VllmConfig.__post_init__",
)
CAPTURES_FULL_GRAPHS = Change(
    since=(0, 11),
    what="Full CUDA graphs of decode steps are captured beside piecewise ones.",
    source="vLLM 0.11.0 `config/vllm.py` (FULL_AND_PIECEWISE by default)",
)
_BREAKS_GRAPHS = Change(
    since=(0, 29),
    what=(
        "Some architectures, such as DeepSeek V4, have piecewise CUDA graphs without "
        "being compiled (breakable graphs)."
    ),
    source="vLLM 0.29.0 `config/vllm.py` DEFAULT_BREAKABLE_CUDAGRAPH_ARCHITECTURES",
)


class GraphMode(StrEnum):
    """The parts of a step that CUDA graphs capture.

    Source: vLLM 0.33.0 `config/compilation.py` CUDAGraphMode.
    """

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    @property
    def has_pieces(self) -> bool:
        """Whether the layers between attention are captured for mixed batches."""
        return self in (GraphMode.PIECEWISE, GraphMode.FULL_AND_PIECEWISE)

    @property
    def has_full(self) -> bool:
        """Whether whole steps are captured."""
        return self not in (GraphMode.NONE, GraphMode.PIECEWISE)

    @property
    def without_pieces(self) -> GraphMode:
        """The mode without piecewise graphs, where these are not possible."""
        kept = {
            GraphMode.PIECEWISE: GraphMode.NONE,
            GraphMode.FULL_AND_PIECEWISE: GraphMode.FULL_DECODE_ONLY,
        }
        return kept.get(self, self)


_BY_LEVEL = (
    GraphMode.NONE,
    GraphMode.PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
)
_FUSES_FROM_LEVEL = 2


@frozen
class Compilation:
    """How a start compiles and captures graphs, as its arguments request."""

    graph_mode: GraphMode
    is_compiled: bool
    """Whether vLLM compiles the model, or captures it uncompiled (breakable graphs)."""
    may_fuse_all_reduce: bool
    """Whether all-reduce may be fused with the norm that follows it."""
    capture_sizes: tuple[int, ...] | None
    max_capture_size: int | None


def compilation_config(settings: EngineSettings) -> Mapping[str, Any]:
    """Return compilation_config as names and values; a bare number is its mode.

    Raises:
        PlannerError: for text that is not JSON, or JSON that is not a table.
    """
    given: Any = settings.compilation_config
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise PlannerError(
                f"compilation_config={settings.compilation_config!r} is not JSON "
                f"({error}). Write a table such as "
                '{"cudagraph_mode": "PIECEWISE"}.'
            ) from None
    if isinstance(given, int) and not isinstance(given, bool):
        given = {"mode": given}
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise PlannerError(
            f"compilation_config={given!r}: names and values are needed, such as "
            '{"cudagraph_mode": "PIECEWISE"}.'
        )
    return given


def specializes_lora_graphs(settings: EngineSettings) -> bool:
    """Whether batches without adapters have CUDA graphs of their own.

    Raises:
        Refused: in vLLM's words, for a value that is not a boolean.

    Source: vLLM 0.33.0 `config/compilation.py` cudagraph_specialize_lora.
    """
    requested = compilation_config(settings).get("cudagraph_specialize_lora")
    if requested is None:
        return True
    if not isinstance(requested, bool):
        raise Refused(
            "1 validation error for CompilationConfig\ncudagraph_specialize_lora\n  "
            "Input should be a valid boolean"
        )
    return requested


def resolve_compilation(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> Compilation:
    """Return how a start compiles the model and which graphs it captures.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `config/vllm.py` VllmConfig.__post_init__,
    _normalize_piecewise_cudagraph_mode; `engine/arg_utils.py` create_engine_config.
    """
    config = compilation_config(settings)
    check_keys("compilation_config", config, release)
    sizes, largest = _given_sizes(settings, config)
    level = 2 if settings.optimization_level is None else settings.optimization_level
    mode, requested = _compile_mode(config), _graph_mode(config)
    if settings.enforce_eager or gpu.is_cpu:
        graphs, is_compiled = GraphMode.NONE, not settings.enforce_eager
    else:
        is_broken = breaks_graphs(release, model.architecture)
        graphs, is_compiled = _resolved(
            mode, requested or _BY_LEVEL[level], level, release
        )
        if is_broken:
            graphs, is_compiled = requested or _BY_LEVEL[level], True
        graphs = _for_model(graphs, model, release)
    return Compilation(
        graph_mode=graphs,
        is_compiled=is_compiled,
        may_fuse_all_reduce=is_compiled and _fuses_all_reduce(config, level),
        capture_sizes=sizes,
        max_capture_size=largest,
    )


def _fuses_all_reduce(config: Mapping[str, Any], level: int) -> bool:
    """Whether the pass that fuses all-reduce with norms is on.

    Source: vLLM 0.33.0 `config/compilation.py` PassConfig.fuse_allreduce_rms.
    """
    passes = config.get("pass_config")
    asked = passes.get("fuse_allreduce_rms") if isinstance(passes, Mapping) else None
    return level >= _FUSES_FROM_LEVEL if asked is None else bool(asked)


def _resolved(
    mode: int | None, graphs: GraphMode, level: int, release: Release
) -> tuple[GraphMode, bool]:
    if mode is None:
        mode = _VLLM_COMPILE if level else _NO_COMPILATION
    is_compiled = mode == _VLLM_COMPILE
    if is_compiled or not graphs.has_pieces:
        return graphs, is_compiled
    keeps_full = release.has(_KEEPS_FULL_GRAPHS)
    return graphs.without_pieces if keeps_full else GraphMode.NONE, False


def _for_model(
    graphs: GraphMode, model: ModelArchitecture, release: Release
) -> GraphMode:
    """Return the graphs that this kind of model supports."""
    if not release.has(CAPTURES_FULL_GRAPHS):
        return GraphMode.PIECEWISE
    if model.is_pooling and graphs.has_full:
        return GraphMode.PIECEWISE
    if not model.is_encoder_decoder or graphs is GraphMode.NONE:
        return graphs
    return (
        GraphMode.FULL_DECODE_ONLY
        if release.has(_CAPTURES_DECODING_OF_ENCODERS)
        else GraphMode.PIECEWISE
    )


def _given_sizes(
    settings: EngineSettings, config: Mapping[str, Any]
) -> tuple[tuple[int, ...] | None, int | None]:
    """Return the capture sizes set by their own arguments or by compilation_config.

    Raises:
        Refused: in vLLM's words, where both set them.
    """
    for name in _SIZES:
        if config.get(name) is not None and getattr(settings, name) is not None:
            raise Refused(
                f"{name} and compilation_config.{name} are mutually exclusive"
            )
    sizes, largest = (config.get(name) for name in _SIZES)
    if sizes is not None and not isinstance(sizes, list | tuple):
        raise Refused(
            "1 validation error for CompilationConfig\ncudagraph_capture_sizes\n  "
            "Input should be a valid list"
        )
    for size in sizes or ():
        if type(size) is not int or size < 1:
            raise PlannerError(
                f"compilation_config.cudagraph_capture_sizes holds {size!r}: whole "
                "numbers from 1 are needed."
            )
    if largest is not None and (type(largest) is not int or largest < 0):
        raise PlannerError(
            f"compilation_config.max_cudagraph_capture_size={largest!r}: a whole "
            "number from 0 is needed."
        )
    return (
        settings.cudagraph_capture_sizes if sizes is None else tuple(sizes),
        settings.max_cudagraph_capture_size if largest is None else largest,
    )


def _compile_mode(config: Mapping[str, Any]) -> int | None:
    """Return the number of the compilation mode; None where it is not set.

    Source: vLLM 0.33.0 `config/compilation.py` validate_mode_before.
    """
    requested = config.get("mode")
    if requested is None:
        return None
    if isinstance(requested, str):
        if requested.upper() not in _MODES:
            raise Refused(
                "1 validation error for CompilationConfig\nmode\n  Value error, "
                f"Invalid compilation mode: {requested}. Valid modes are: "
                f"{', '.join(_MODES)}"
            )
        return _MODES.index(requested.upper())
    if type(requested) is not int or not 0 <= requested <= _VLLM_COMPILE:
        raise Refused(
            "1 validation error for CompilationConfig\nmode\n  Input should be 0, 1, "
            f"2 or 3 [type=enum, input_value={requested!r}, "
            f"input_type={type(requested).__name__}]"
        )
    return requested


def _graph_mode(config: Mapping[str, Any]) -> GraphMode | None:
    """Return the requested graphs; None where they are not set.

    Source: vLLM 0.33.0 `config/compilation.py` validate_cudagraph_mode_before.
    """
    requested = config.get("cudagraph_mode")
    by_number = {0: GraphMode.NONE, 1: GraphMode.PIECEWISE, 2: GraphMode.FULL}
    if requested is None:
        return None
    if isinstance(requested, str) and requested.upper() in GraphMode.__members__:
        return GraphMode(requested.upper())
    if type(requested) is int and requested in by_number:
        return by_number[requested]
    if isinstance(requested, str):
        raise Refused(f"{requested.upper()!r}")  # vLLM stops with a bare KeyError
    raise Refused(
        "1 validation error for CompilationConfig\ncudagraph_mode\n  Input should be "
        f"0, 1, 2, (2, 0) or (2, 1) [type=enum, input_value={requested!r}, "
        f"input_type={type(requested).__name__}]"
    )


def breaks_graphs(release: Release, architecture: str) -> bool:
    """Return whether an architecture has piecewise graphs without being compiled.

    Source: vLLM 0.33.0 `config/vllm.py` DEFAULT_BREAKABLE_CUDAGRAPH_ARCHITECTURES.
    """
    return release.has(_BREAKS_GRAPHS) and architecture in _BREAKABLE
