"""What the arguments ask to be moved to CPU memory, and what vLLM makes of them.

Source: vLLM 0.33.0 `config/offload.py` OffloadConfig,
`model_executor/offloader/base.py` create_offloader; 0.17.0 the same; before, the budget
of cpu_offload_gb alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.experts import FusedMoE
from planner.memory.offload_order import order_of
from planner.memory.runner import uses_v2_runner
from planner.model import ModelArchitecture
from planner.parallel import HOPPER, ParallelLayout
from planner.releases import Release
from planner.tensors import ExpertsKernel
from planner.units import GIB

_KEEPS_OBJECTS = (0, 33)
"""First release that gives parameters new contents after loading, not new objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offloading:
    """Which parameters of a rank leave the GPU."""

    cpu_offload_gb: float = 0
    group_size: int = 0
    """Layers in a group, of which the last are prefetched; 0: a budget decides."""
    num_in_group: int = 1
    prefetch_step: int = 1
    """Layers that are under way at once."""
    names: tuple[str, ...] = ()
    """Modules, or whole parts of their names; empty: all."""

    @property
    def budget_bytes(self) -> int:
        """Bytes at which no further parameter moves."""
        return int(self.cpu_offload_gb * GIB)

    @property
    def is_prefetching(self) -> bool:
        """Whether groups of layers decide, not a budget."""
        return self.group_size > 0

    @property
    def why(self) -> str:
        """What decides how many parameters move."""
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
    """Return what moves; None: all parameters stay.

    `layout` says on which GPUs; without it quantised weights are not known.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: naming the argument, where it is not certain which
            parameters move, or what becomes of them after loading.
    """
    check_offloading(settings)
    asked = _asked(settings)
    if asked is None:
        return None
    what = _typed(settings, asked)
    reason = _unknown(asked, model, release) or _repacked(model, layout)
    if reason is not None:
        raise UnknownArchitecture(
            f"{what} {reason} is not modelled yet. Leave {what.partition('=')[0]} out."
        )
    if is_ignored(model, release, forces_v2_runner=forces_v2_runner):
        return None
    _check_names(asked, model, what)
    return asked


def check_offloading(settings: EngineSettings) -> None:
    """Refuse groups of layers that cannot be.

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


def _asked(settings: EngineSettings) -> Offloading | None:
    """Return what the arguments name, the groups before the budget."""
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


def _typed(settings: EngineSettings, asked: Offloading) -> str:
    if asked.is_prefetching:
        return f"offload_group_size={asked.group_size}"
    return f"cpu_offload_gb={settings.cpu_offload_gb!r}"


def is_ignored(
    model: ModelArchitecture, release: Release, *, forces_v2_runner: bool | None = None
) -> bool:
    """Return whether offloading has no effect: the runner sets no offloader.

    Source: vLLM 0.27.1 and 0.28.0 `v1/worker/gpu/model_runner.py` load_model.
    """
    uses_v2 = uses_v2_runner(model, release, forced=forces_v2_runner)
    return uses_v2 and not release.since(0, 28)


def _repacked(model: ModelArchitecture, layout: ParallelLayout | None) -> str | None:
    """Return why it is not certain where quantised weights lie in the end; None: it is.

    What a kernel gives another shape after loading comes back to the GPU in 0.33.0, or
    is moved once more in older releases. Weights with a scale for each block keep their
    shape on Hopper, and stay where they were moved.

    Source: vLLM 0.33.0 `model_executor/utils.py` replace_parameter,
    `model_executor/model_loader/utils.py` device_loading_context,
    `kernels/linear/scaled_mm/BlockScaledMMLinearKernel.py`.
    """
    if model.quantization is None:
        return None
    why = f"with weights quantised by {model.quantization}"
    if layout is None or not layout.release.since(*_KEEPS_OBJECTS):
        return why
    if layout.compute_capability[0] != HOPPER:
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


def _unknown(
    asked: Offloading, model: ModelArchitecture, release: Release
) -> str | None:
    if model.has_latent_attention and (
        asked.is_prefetching or model.quantization is not None
    ):
        return "with latent attention, of whose weights vLLM keeps copies on the GPU,"
    names = {m.name for kind in model.layer_kinds for m in kind.modules}
    if "self_attn.q_b_proj" in names:
        return "with latent attention whose queries have two factors"
    if model.is_pooling or order_of(model.architecture, release) is None:
        return f"with {model.architecture} in vLLM {release.version}"
    if model.is_multimodal and not release.since(0, 32):
        return f"with the encoders of {model.architecture} in vLLM {release.version}"
    if len(model.cache_layers) > 1 and not release.since(0, 20):
        # vLLM stops on an assertion when caches have several sizes of blocks.
        return "with layers whose caches differ"
    return None


def _check_names(asked: Offloading, model: ModelArchitecture, what: str) -> None:
    """Leave out names of single parameters, which the planner does not tell apart."""
    modules = {
        module.name
        for index in dict.fromkeys(model.layers)
        for module in model.layer_kinds[index].modules
    }
    for name in asked.names:
        if not any(f".{name}." in f".{module}." for module in modules):
            argument = (
                "offload_params" if asked.is_prefetching else "cpu_offload_params"
            )
            raise UnknownArchitecture(
                f"{argument} names {name!r}, which is no module of a decoder layer "
                f"({', '.join(sorted(modules))}): what then moves is not modelled, "
                f"with {what}."
            )
