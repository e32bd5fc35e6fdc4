"""Building blocks that the towers share."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout, divide
from planner.models.families.facts import Facts
from planner.models.layers import (
    ColumnParallelLinear,
    Condition,
    Linear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.tensors import Tensors
from planner.values import frozen

IMAGE, AUDIO = ("image",), ("audio",)
IMAGE_AND_VIDEO = ("image", "video")


def divided_heads(name: str, num_heads: int) -> Condition:
    """Return attention heads that ranks must divide, where no layer is cut by them."""

    def check(layout: ParallelLayout) -> None:
        divide(num_heads, layout.tensor_parallel_size)

    return Condition(name=name, part=Part.TOWERS, check=check)


@frozen
class WholeUnlessDivided(Linear):
    """A linear layer that ranks hold in full where they do not divide its heads."""

    layer: QKVParallelLinear | RowParallelLinear
    num_heads: int
    part: Part = Part.TOWERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        if self.num_heads % layout.tensor_parallel_size:
            layout = replace(layout, tensor_parallel_size=1)
        return replace(self.layer, method=self.method).tensors(layout)


def replicated(
    name: str, *shapes: tuple[int, ...], dtype: str | None = None
) -> Replicated:
    """Return tensors that every rank holds in full: embeddings, buffers."""
    return Replicated(name, Part.TOWERS, shapes, dtype=dtype)


def convolution(
    name: str, out_channels: int, in_channels: int, *kernel: int, bias: bool
) -> Replicated:
    """Return a convolution, which no rank divides.

    Source: vLLM 0.33.0 `layers/conv.py` Conv2dLayer and Conv3dLayer.
    """
    weight = (out_channels, in_channels, *kernel)
    return (
        replicated(name, weight, (out_channels,)) if bias else replicated(name, weight)
    )


def norms(name: str, size: int, *, count: int = 1, bias: bool) -> Replicated:
    """Return `count` norms, each with a bias where configured."""
    return replicated(name, *(((size,),) * (count * (2 if bias else 1))))


def column(
    name: str,
    input_size: int,
    *output_sizes: int,
    bias: bool,
    shards: tuple[str, ...] = (),
) -> ColumnParallelLinear:
    """Return a linear layer of a tower, cut along its outputs."""
    return ColumnParallelLinear(
        name, Part.TOWERS, input_size, output_sizes, bias=bias, shards=shards
    )


def row(
    name: str, input_size: int, output_size: int, *, bias: bool
) -> RowParallelLinear:
    """Return a linear layer of a tower, cut along its inputs."""
    return RowParallelLinear(name, Part.TOWERS, input_size, output_size, bias=bias)


def whole(
    name: str, input_size: int, output_size: int, *, bias: bool
) -> ReplicatedLinear:
    """Return a linear layer of a tower that each rank holds in full."""
    return ReplicatedLinear(name, Part.TOWERS, input_size, (output_size,), bias=bias)


def qkv(
    name: str,
    hidden_size: int,
    num_heads: int,
    *,
    bias: bool,
    shards: tuple[str, ...] = (),
) -> QKVParallelLinear:
    """Return query, key and value of a tower's attention, in one.

    `shards` is empty where the checkpoint holds them in one as well.
    """
    return QKVParallelLinear(
        name=name,
        part=Part.TOWERS,
        input_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=hidden_size // num_heads,
        bias=bias,
        shards=shards,
    )


QKV_SHARDS = ("q_proj", "k_proj", "v_proj")
GATE_AND_UP = ("gate_proj", "up_proj")


def gated_mlp(
    name: str,
    hidden_size: int,
    intermediate_size: int,
    *,
    bias: bool,
    shards: tuple[str, ...] = GATE_AND_UP,
) -> tuple[Module, ...]:
    """Return an MLP with a gate: gate and up merged, then down."""
    return (
        column(
            f"{name}.gate_up_proj",
            hidden_size,
            intermediate_size,
            intermediate_size,
            bias=bias,
            shards=shards,
        ),
        row(f"{name}.down_proj", intermediate_size, hidden_size, bias=bias),
    )


def plain_mlp(
    first: str, second: str, hidden_size: int, intermediate_size: int
) -> tuple[ColumnParallelLinear | RowParallelLinear, ...]:
    """Return an MLP of two layers with biases, under the names of both."""
    return (
        column(first, hidden_size, intermediate_size, bias=True),
        row(second, intermediate_size, hidden_size, bias=True),
    )


@frozen(kw_only=False)
class Sizes:
    """Of a tower's layers, which are alike."""

    width: int
    heads: int
    mlp: int
    depth: int

    @classmethod
    def of(cls, facts: Facts) -> Sizes:
        """Return them under the usual names of Transformers' towers."""
        return cls(
            facts.integer("hidden_size"),
            facts.integer("num_attention_heads"),
            facts.integer("intermediate_size"),
            facts.integer("num_hidden_layers"),
        )


@frozen
class Parts:
    """What a class calls the parts of a layer, and which biases they have."""

    norms: str = "layer_norm"
    qkv: str = "self_attn.qkv_proj"
    out: str = "self_attn.out_proj"
    mlp: tuple[str, str] = ("mlp.fc1", "mlp.fc2")
    shards: tuple[str, ...] = ()
    qkv_bias: bool = True
    norms_last: bool = False
    """Whether the norms stand behind the rest."""


CLIP = Parts(shards=QKV_SHARDS)
VIT = Parts(norms="norm", qkv="attn.qkv", out="attn.proj")


def repeated(name: str, count: int, *modules: Module) -> tuple[Module, ...]:
    """Return the modules of a layer once for each of several, under their names.

    One without a name is the layer itself.
    """
    return tuple(
        replace(module, name=f"{name}.{index}.{module.name}".rstrip("."))  # type: ignore[type-var]
        for index in range(count)
        for module in modules
    )


def layer(sizes: Sizes, parts: Parts = CLIP) -> tuple[Module, ...]:
    """Return a layer of two norms, attention, and an MLP of two layers with biases."""
    size = sizes.width
    both = (norms(parts.norms, size, count=2, bias=True),)
    own = (
        qkv(parts.qkv, size, sizes.heads, bias=parts.qkv_bias, shards=parts.shards),
        row(parts.out, size, size, bias=True),
        *plain_mlp(*parts.mlp, size, sizes.mlp),
    )
    return (*own, *both) if parts.norms_last else (*both, *own)


def layers(name: str, sizes: Sizes, parts: Parts = CLIP) -> tuple[Module, ...]:
    """Return a tower's layers under their numbers."""
    return repeated(name, sizes.depth, *layer(sizes, parts))


def rotary_cache(name: str, head_size: int) -> Replicated:
    """Return the rotary table of a tower: 8,192 rows, half a head's dimensions.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VisionTransformer (get_rope).
    """
    return replicated(f"{name}.cos_sin_cache", (8192, head_size // 2))


def input_norm(name: str) -> Replicated:
    """Return scale and shift by which the GPU normalises pixels, per colour.

    Source: vLLM 0.33.0 `layers/fusion/mm_input_norm.py` FusedMMInputNorm, for classes
    with supports_mm_device_do_normalize.
    """
    return replicated(f"{name}.input_norm", (3,), (3,), dtype="float32")


def linear(name: str, input_size: int, output_size: int, *, bias: bool) -> Replicated:
    """Return a linear layer of PyTorch's own, which every rank holds in full."""
    shapes = ((output_size, input_size), (output_size,))
    return replicated(name, *shapes[: 2 if bias else 1])


def two_layers(
    name: str, input_size: int, output_size: int, *, between: int | None = None
) -> Replicated:
    """Return two linear layers of PyTorch's own with biases, one after the other."""
    middle = output_size if between is None else between
    first = (middle, input_size), (middle,)
    return replicated(name, *first, (output_size, middle), (output_size,))


def inverse_frequencies(name: str, head_size: int) -> Replicated:
    """Return rotary frequencies: of half a head's dimensions, every other one."""
    count = -(-(head_size // 2) // 2)
    return replicated(f"{name}.inv_freq", (count,), dtype="float32")


def unquantised(*modules: Module) -> tuple[Module, ...]:
    """Return the layers as a class builds them that passes no quantisation on."""
    return tuple(
        replace(module, is_quantizable=False) if isinstance(module, Linear) else module
        for module in modules
    )
