"""Which parameters the arguments move to CPU memory, and in which order.

The order is that in which vLLM's classes register the parameters of a decoder layer.
The planner's modules have that order for plain layers; classes with experts register
the norms after them. Each entry was compared, parameter by parameter, with what the
classes of vLLM 0.33.0 build; for other classes the order is not guessed.

Source: vLLM 0.33.0 `config/offload.py` OffloadConfig,
`model_executor/offloader/base.py` create_offloader; 0.17.0 the same; before, only the
budget of cpu_offload_gb. `model_executor/models/`, the __init__ of each decoder layer.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.engine.generations import HOPPER
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.runner import uses_v2_runner
from planner.models.architecture import ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.layers import Module
from planner.models.tensors import ExpertsKernel
from planner.units import GIB
from planner.values import frozen

_DELTA_ATTENTION = ("linear_attn.dt_bias", "linear_attn.A_log", "linear_attn")
_KEEPS_OBJECTS = Change(
    since=(0, 33),
    what=(
        "After loading, vLLM replaces the contents of parameters, not the parameters "
        "themselves."
    ),
    source="vLLM 0.33.0 `model_executor/utils.py` replace_parameter",
)
_ORDERS_AS_COMPARED = Change(
    since=(0, 32),
    what=(
        "Parameters of multimodal and most other classes move to CPU memory "
        "(cpu_offload_gb) in the order of 0.32.0, the oldest release whose order is "
        "modelled."
    ),
)
_ORDERS_LATENT_AS_COMPARED = Change(
    since=(0, 33),
    what=(
        "Parameters of DeepSeek-V2's layers move to CPU memory (cpu_offload_gb) in the "
        "order of 0.33.0, the oldest release whose order is modelled."
    ),
)
_IGNORES_OFFLOADING = Change(
    until=(0, 28),
    what="The second model runner ignores offloading to CPU memory (cpu_offload_gb).",
    source="vLLM 0.27.1 and 0.28.0 `v1/worker/gpu/model_runner.py` load_model",
)
_STOPS_ON_SEVERAL_SIZES = Change(
    until=(0, 20),
    what=(
        "Moving parameters to CPU memory (cpu_offload_gb) stops on an assertion when "
        "caches have several sizes of blocks."
    ),
)


@frozen
class Order:
    """The order of parameters in a class."""

    names: tuple[str, ...] = ()
    """Prefixes of module names, in order; empty: the modules' own order."""
    change: Change | None = _ORDERS_AS_COMPARED
    """The release from which on it is known; None: in every one."""

    def sorted(self, modules: tuple[Module, ...]) -> tuple[Module, ...]:
        """Return the modules in the order in which the class registers them."""
        return tuple(sorted(modules, key=self._place)) if self.names else modules

    def _place(self, module: Module) -> int:
        found = (
            place
            for place, name in enumerate(self.names)
            if module.name == name or module.name.startswith(f"{name}.")
        )
        return next(found, len(self.names))


_AS_LISTED = Order()
_AS_LISTED_ALWAYS = Order(change=None)
_EXPERTS = Order(names=("self_attn", "mlp.gate", "mlp.experts", "mlp"))
_BLOCK_EXPERTS = Order(
    names=("self_attn", "block_sparse_moe.gate", "block_sparse_moe.experts")
)
_SHARED_EXPERT = Order(
    names=(
        *("self_attn", "mlp.gate", "mlp.shared_expert_gate"),
        *("mlp.shared_expert", "mlp.experts", "mlp"),
    )
)
_LATENT = Order(
    names=(
        *("self_attn.kv_a_proj_with_mqa", "self_attn.q_proj", "self_attn.layernorm"),
        *("self_attn.kv_b_proj", "self_attn.o_proj", "self_attn", "mlp.gate"),
        *("mlp.shared_experts", "mlp.experts", "mlp"),
    ),
    change=_ORDERS_LATENT_AS_COMPARED,
)
ORDERS: Mapping[str, Order] = {
    **dict.fromkeys(
        (
            "GemmaForCausalLM",
            "GraniteForCausalLM",
            "LlamaForCausalLM",
            "MistralForCausalLM",
            "Phi3ForCausalLM",
            "Qwen2ForCausalLM",
            "Qwen3ForCausalLM",
        ),
        _AS_LISTED_ALWAYS,
    ),
    **dict.fromkeys(
        (
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
            "Mistral3ForConditionalGeneration",
            "Qwen2AudioForConditionalGeneration",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3VLForConditionalGeneration",
        ),
        _AS_LISTED,
    ),
    "DeepseekV2ForCausalLM": _LATENT,
    "Llama4ForConditionalGeneration": Order(
        names=(
            *("self_attn", "feed_forward.router", "feed_forward.shared_expert"),
            *("feed_forward.experts", "feed_forward"),
        )
    ),
    "MixtralForCausalLM": _BLOCK_EXPERTS,
    "PhiMoEForCausalLM": _BLOCK_EXPERTS,
    "Qwen2MoeForCausalLM": _SHARED_EXPERT,
    "Qwen3MoeForCausalLM": _EXPERTS,
    "Qwen3VLMoeForConditionalGeneration": _EXPERTS,
    "Qwen3_5ForConditionalGeneration": Order(
        names=(*_DELTA_ATTENTION, "self_attn", "mlp")
    ),
    "Qwen3_5MoeForConditionalGeneration": Order(
        names=(*_DELTA_ATTENTION, *_SHARED_EXPERT.names)
    ),
}
"""By architecture."""


def order_of(architecture: str, release: Release) -> Order | None:
    """Return the order of an architecture's layers in a release; None: not known."""
    order = ORDERS.get(architecture)
    if order is None or order.change is None:
        return order
    return order if release.has(order.change) else None


@frozen
class Offloading:
    """Which parameters of a rank leave the GPU."""

    cpu_offload_gb: float = 0
    group_size: int = 0
    """Layers in a group, whose last ones are prefetched; 0: by budget."""
    num_in_group: int = 1
    prefetch_step: int = 1
    """Layers that are being copied at once."""
    names: tuple[str, ...] = ()
    """Names of modules, or whole components of them; empty: all."""

    @property
    def budget_bytes(self) -> int:
        """Bytes at which no further parameter moves."""
        return int(self.cpu_offload_gb * GIB)

    @property
    def is_prefetching(self) -> bool:
        """Whether parameters move by groups of layers, not by a budget."""
        return self.group_size > 0

    @property
    def why(self) -> str:
        """What determines how many parameters move."""
        return f"whole ones until cpu_offload_gb={self.cpu_offload_gb:g} is reached"

    def is_prefetched(self, number: int) -> bool:
        """Whether a layer of a pipeline stage is among the last of its group."""
        return number % self.group_size >= self.group_size - self.num_in_group

    def takes(self, module: str) -> bool:
        """Whether the parameters of a module may move."""
        if not self.names:
            return True
        return any(f".{name}." in f".{module}." for name in self.names)


def offloading_of(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release,
    *,
    forces_v2_runner: bool | None = None,
    layout: ParallelLayout | None = None,
) -> Offloading | None:
    """Return which parameters move; None: all stay on the GPU.

    Without `layout`, which describes the GPUs, quantised weights are not modelled.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: naming the argument, where it is not known which
            parameters move, or where they are after loading.
    """
    check_offloading(settings)
    requested = _requested(settings)
    if requested is None:
        return None
    what = _argument(settings, requested)
    reason = _not_modelled(requested, model, release) or _repacked(model, layout)
    if reason is not None:
        raise UnknownArchitecture(
            f"{what} {reason} is not modelled yet. Leave {what.partition('=')[0]} out."
        )
    if is_ignored(model, release, forces_v2_runner=forces_v2_runner):
        return None
    _check_names(requested, model, what)
    return requested


def check_offloading(settings: EngineSettings) -> None:
    """Refuse impossible groups of layers.

    Raises:
        Refused: in vLLM's words.
    """
    size = settings.offload_group_size or 0
    if not size and settings.offload_backend != "prefetch":
        return
    given = settings.offload_num_in_group
    inside = 1 if given is None else given
    if inside > size:
        raise Refused(
            f"offload_num_in_group ({inside}) must be <= offload_group_size ({size})"
        )
    step = settings.offload_prefetch_step
    if step is not None and step < 1:
        raise Refused(
            f"offload_prefetch_step ({step}) must be >= 1 when prefetch offloading is "
            "enabled (offload_group_size > 0)"
        )


def is_ignored(
    model: ModelArchitecture, release: Release, *, forces_v2_runner: bool | None = None
) -> bool:
    """Return whether offloading has no effect, since the runner sets no offloader."""
    uses_v2 = uses_v2_runner(model, release, forced=forces_v2_runner)
    return uses_v2 and release.has(_IGNORES_OFFLOADING)


def _requested(settings: EngineSettings) -> Offloading | None:
    """Return what the arguments request, groups before a budget."""
    backend = settings.offload_backend or "auto"
    if settings.offload_group_size and backend != "uva":
        return Offloading(
            group_size=settings.offload_group_size,
            num_in_group=settings.offload_num_in_group or 1,
            prefetch_step=settings.offload_prefetch_step or 1,
            names=tuple(settings.offload_params or ()),
        )
    if settings.cpu_offload_gb and backend != "prefetch":
        return Offloading(
            cpu_offload_gb=settings.cpu_offload_gb,
            names=tuple(settings.cpu_offload_params or ()),
        )
    return None


def _argument(settings: EngineSettings, requested: Offloading) -> str:
    if requested.is_prefetching:
        return f"offload_group_size={requested.group_size}"
    return f"cpu_offload_gb={settings.cpu_offload_gb!r}"


def _repacked(model: ModelArchitecture, layout: ParallelLayout | None) -> str | None:
    """Return why the final location of quantised weights is unknown; None: it is known.

    Weights that a kernel reshapes after loading return to the GPU in 0.33.0, or are
    moved once more in older releases. Weights with block scales keep their shape on
    Hopper, and stay in CPU memory.

    Source: vLLM 0.33.0 `model_executor/model_loader/utils.py` device_loading_context,
    `kernels/linear/scaled_mm/BlockScaledMMLinearKernel.py`.
    """
    if model.quantization is None:
        return None
    why = f"with weights quantised by {model.quantization}"
    if layout is None or not layout.release.has(_KEEPS_OBJECTS):
        return why
    if layout.compute_capability[0] != HOPPER.major:
        return f"{why} on this GPU, whose kernels repack them after loading,"
    methods = {
        getattr(module, "method", None)
        for kind in model.layer_kinds
        for module in kind.modules
    }
    if not all(getattr(m, "keeps_shape_on_hopper", False) for m in methods - {None}):
        return f"{why}, which kernels repack after loading,"
    experts = (m for k in model.layer_kinds for m in k.modules)
    kernels = {m.served(layout).kernel for m in experts if isinstance(m, FusedMoE)}
    if kernels - {ExpertsKernel.TRITON, ExpertsKernel.DEEPGEMM}:
        return f"{why}, whose experts are repacked after loading,"
    return None


def _not_modelled(
    requested: Offloading, model: ModelArchitecture, release: Release
) -> str | None:
    if model.has_latent_attention and (
        requested.is_prefetching or model.quantization is not None
    ):
        return "with latent attention, of whose weights vLLM keeps copies on the GPU,"
    names = {m.name for kind in model.layer_kinds for m in kind.modules}
    if "self_attn.q_b_proj" in names:
        return "with latent attention whose queries have two factors"
    if model.is_pooling or order_of(model.architecture, release) is None:
        return f"with {model.architecture} in vLLM {release.version}"
    if model.is_multimodal and not release.has(_ORDERS_AS_COMPARED):
        return f"with the encoders of {model.architecture} in vLLM {release.version}"
    if len(model.cache_layers) > 1 and release.has(_STOPS_ON_SEVERAL_SIZES):
        return "with layers whose caches differ"
    return None


def _check_names(requested: Offloading, model: ModelArchitecture, what: str) -> None:
    """Leave out names of single parameters, which the planner does not distinguish."""
    modules = {
        module.name
        for index in dict.fromkeys(model.layers)
        for module in model.layer_kinds[index].modules
    }
    for name in requested.names:
        if not any(f".{name}." in f".{module}." for module in modules):
            argument = (
                "offload_params" if requested.is_prefetching else "cpu_offload_params"
            )
            raise UnknownArchitecture(
                f"{argument} names {name!r}, which is not a module of a decoder layer "
                f"({', '.join(sorted(modules))}): what then moves is not modelled, "
                f"with {what}."
            )
