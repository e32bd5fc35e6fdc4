"""What a start that compiles the model takes beside the profile run.

Inductor tunes its kernels before it uses them. In the first forward pass, a benchmark
holds a buffer of the size of the L2 cache beside the layer's own tensors. Since PyTorch
2.10 (vLLM 0.17) the pieces of the model are tuned while they are compiled, with example
values of their inputs: for the first piece that is a copy of the word embeddings. A
start with a warm compile cache does neither.

Freed blocks are given back when the run ends, unless a small tensor that stays was
allocated in them, such as cuBLAS's workspace: then the whole block counts as used.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.dtypes import element_bytes
from planner.engine.l2_cache import l2_cache_bytes
from planner.engine.releases.change import Change
from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.memory.account import NOTHING, Sized, larger
from planner.memory.allocator import SPLITS_ANY_BLOCK, Segments, beyond_tensor
from planner.memory.lines.attention_pass import (
    kinds,
    language_model,
    query_and_key_widths,
)
from planner.memory.lines.compiled_pieces import NORMALISES_OUTPUTS
from planner.memory.lines.forward_pass import (
    activation_width,
    activation_widths,
    forward,
)
from planner.memory.lines.persistent import sampler_state_sizes
from planner.memory.lines.sampler import blas_workspace_bytes, changes_stream
from planner.memory.media.encoder import encoder_kept_bytes
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.experts import FusedMoE
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
)
from planner.models.quantization.choosing import PLUGINS
from planner.units import MIB, format_size

_TUNES_WITH_EXAMPLES = Change(
    since=(0, 17),
    what="Kernels are tuned with example values while a piece is compiled.",
    source=(
        "PyTorch 2.10 (vLLM 0.17.0 to 0.19.1) `_inductor/standalone_compile.py` "
        "(autotune_at_compile_time), `_inductor/codegen/wrapper.py` "
        "generate_and_run_autotune_block; traced dry runs of 0.19.0. A first start of "
        "0.11.2 (PyTorch 2.9) has no room for them: 10.93 GiB of KV cache logged on an "
        "L40S"
    ),
)
_LOOKS_UP_BY_OWN_KERNEL = Change(
    since=(0, 29),
    what=(
        "A rank's part of the embeddings is read by a kernel that the compiler leaves "
        "alone."
    ),
    source=(
        "vLLM 0.29.0 `layers/vocab_parallel_embedding.py` use_fused_embedding; a dry "
        "run of Llama 3.1 8B on two ranks, 167 MiB in 0.33.0 where one of 0.19.0 has "
        "616 MiB"
    ),
)
_FLUSHES_AS_IT_RUNS = Change(
    until=(0, 27),
    what=(
        "Some compiled kernels are tuned when they first run, beside the layer's "
        "tensors."
    ),
    source=(
        "dry runs of Qwen3-32B on two ranks: 824 MiB and a buffer of 128 MiB in 0.20.0 "
        "(PyTorch 2.11), no buffer in 0.33.0 (2.14); 0.27.0 (2.13) was not traced"
    ),
)
_FREES_FACTORS = Change(
    since=(0, 33),
    what=(
        "The example values with which the compiler tunes a kernel are freed before "
        "the next kernel is tuned."
    ),
    source=(
        "PyTorch 2.14 (vLLM 0.33.0) `_inductor/codegen/wrapper.py`; dry runs of "
        "Qwen3-4B with 16 adapters, 898 MiB in 0.25.1 and 824 MiB in 0.33.0"
    ),
)
_PRODUCTS = (
    ColumnParallelLinear,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
)
_ROTARY_TABLE = "cos_sin_cache"
_SEGMENT_BYTES = 20 * MIB
_OWN_SEGMENT_BYTES = 10 * MIB
_SEGMENT_UNIT = 2 * MIB


def flushes_as_it_runs(run: ProfileRun) -> bool:
    """Return whether kernels are still tuned in the first forward pass."""
    return run.release.has(_FLUSHES_AS_IT_RUNS)


def flush_bytes(run: ProfileRun) -> int:
    """Return the buffer with which a benchmark clears the L2 cache, if it compiles.

    Source: PyTorch 2.10 `_inductor/runtime/benchmarking.py` benchmark_gpu.
    """
    return l2_cache_bytes(run.gpu) if run.compiles else 0


@once_for_all_lengths
def examples(run: ProfileRun) -> Sized:
    """Return the largest example values of a piece that is compiled.

    Source: PyTorch 2.14 `_inductor/select_algorithm.py` generate_example_value.
    """
    if not run.compiles or not run.release.has(_TUNES_WITH_EXAMPLES):
        return NOTHING
    return larger([_of_embeddings(run), _of_activation(run), _of_rotation(run)])


def _of_embeddings(run: ProfileRun) -> Sized:
    """Return the examples of the first piece: the embeddings and what they give.

    Images and prompts of vectors are merged with the embeddings outside of what is
    compiled. Alone, the lookup is fused with the norm that follows it. The factors of
    adapters and the sum over ranks keep the two apart: then the lookup has a kernel of
    its own, which is benchmarked.
    """
    if not run.is_first_stage or run.towers or run.takes_prompt_embeds:
        return NOTHING
    table, factors = _copied_table_bytes(run), run.embedding_factor_bytes
    if table and run.release.has(_FREES_FACTORS):
        factors = 0
    if not (table or factors):
        return NOTHING
    hidden = _hidden_bytes(run)
    is_alone = not run.has_adapters and run.layout.tensor_parallel_size == 1
    return _sum(
        {
            "a copy of the word embeddings": table,
            "of the adapters' factors": factors,
            "hidden states": 2 * hidden if is_alone else hidden,
            "a benchmark's buffer": 0 if is_alone else flush_bytes(run),
        }
    )


def _copied_table_bytes(run: ProfileRun) -> int:
    """Return the bytes of the word embeddings that a compiled kernel reads."""
    is_split = run.layout.tensor_parallel_size > 1
    if is_split and run.release.has(_LOOKS_UP_BY_OWN_KERNEL):
        return 0
    return _table_bytes(run)


def _of_activation(run: ProfileRun) -> Sized:
    """Return the examples of an MLP's activation, beside two hidden states.

    What the encoders made of images is there, too.
    """
    width = activation_width(run)
    if not width:
        return NOTHING
    values = run.max_num_batched_tokens * width * run.element_size
    return _sum(
        {
            "an MLP's input and activation": values,
            "hidden states": 2 * _hidden_bytes(run),
            "encoder outputs": encoder_kept_bytes(run),
            "a benchmark's buffer": flush_bytes(run),
        }
    )


def _of_rotation(run: ProfileRun) -> Sized:
    """Return the examples of the piece that rotates queries and keys.

    What was projected, the rotary table, which may take the block of an earlier
    benchmark's buffer, and the queries. Gemma's norms of queries and keys are in the
    same kernel, for which no buffer lies beside them, but what encoders made does.

    Source: traced dry runs of Llama 3.1 8B in GPTQ on eight ranks, of Qwen2-VL-7B in
    AWQ on four, of Llama 4 Scout, whose table has 2.5 GiB, and of Gemma 4 31B.
    """
    table = max(_rotary_tables(run), default=0)
    if not table:
        return NOTHING
    flush, each = flush_bytes(run), run.max_num_batched_tokens * run.element_size
    queries, projected = max(_projected(run), default=(0, 0))
    is_gemma = language_model(run) in NORMALISES_OUTPUTS
    return _sum(
        {
            "a copy of the rotary table": table,
            "in a larger block": beyond_tensor(table, run.release, flush),
            "queries, keys and values": (projected + queries) * each,
            "a benchmark's buffer": 0 if is_gemma else flush,
            "encoder outputs": encoder_kept_bytes(run) if is_gemma else 0,
        }
    )


def _rotary_tables(run: ProfileRun) -> Iterator[int]:
    """Yield the bytes of each rotary table that is kept."""
    for module in run.model.every_stage:
        if module.name.endswith(_ROTARY_TABLE):
            for tensor in module.tensors(run.layout):
                yield tensor.elements * element_bytes(tensor.dtype or run.dtype)


def _projected(run: ProfileRun) -> Iterator[tuple[int, int]]:
    """Yield a rank's queries of each kind of layer, and all that it projects."""
    for kind in kinds(run):
        for module in kind.modules:
            if isinstance(module, QKVParallelLinear) and module.part is Part.ATTENTION:
                queries, keys = query_and_key_widths(run, module)
                yield queries, queries + 2 * keys


def _hidden_bytes(run: ProfileRun) -> int:
    return run.max_num_batched_tokens * run.model.hidden_size * run.element_size


def _sum(parts: dict[str, int]) -> Sized:
    named = [f"{name} {format_size(size)}" for name, size in parts.items() if size]
    return Sized(
        size_bytes=sum(parts.values()),
        why=f"compiling with example values: {' + '.join(named)}",
    )


def _table_bytes(run: ProfileRun) -> int:
    """Return the bytes of the word embeddings on a rank, as far as they are plain."""
    return sum(
        tensor.elements * element_bytes(tensor.dtype or run.dtype)
        for module in (*run.model.first_stage, *run.model.every_stage)
        if isinstance(module, VocabParallelEmbedding)
        and module.part is Part.EMBEDDINGS
        and module.method is None
        for tensor in module.tensors(run.layout)[:1]
    )


@once_for_all_lengths
def beyond_after_bytes(run: ProfileRun) -> int:
    """Return what tensors of a layer have beyond them in blocks that examples left.

    Those of the first norm and of the activation; the embeddings' are much larger.

    Source: a traced first start of ERNIE 4.5 0.3B on four ranks, whose states of 31.2
    MiB lie in blocks of the benchmark's buffer, 50 MiB, as well.
    """
    if not run.compiles or run.release.has(SPLITS_ANY_BLOCK):
        return 0
    tensors = forward(run).tensors
    flush, hidden = flush_bytes(run), _hidden_bytes(run)
    each = run.max_num_batched_tokens * run.element_size
    activation = [width * each for width in activation_widths(run)]
    segments = Segments()
    for piece in ((hidden, hidden, flush), (hidden, hidden, *activation, flush)):
        for block in [segments.allocate(size) for size in piece if size]:
            segments.release(block)
    for size in tensors:
        segments.allocate(size)
    return segments.used_bytes - sum(tensors)


@once_for_all_lengths
def pinned(run: ProfileRun) -> Sized:
    """Return the freed copy of the word embeddings that the run cannot give back.

    Two hidden states take the blocks of the other example values, so the first matrix
    product finds no smaller block for cuBLAS's workspace than the embeddings' copy. It
    goes elsewhere only if a segment of earlier tensors has room. Where the layers are
    quantised and multiply without cuBLAS, the first product is that of the head (or of
    a draft), and then the block of a hidden state is free as well. Experts keep
    workspaces that may lie in the same block.

    Source: PyTorch 2.13 `c10/cuda/CUDACachingAllocator.cpp` get_free_block,
    should_split and release_cached_blocks; vLLM 0.31.0 `v1/worker/gpu_worker.py`
    determine_available_memory, which says so and ends it; traced dry runs of
    Qwen3-8B-AWQ with 0.30.0 on RTX 5070 Ti, with an EAGLE-3 draft and without: 32 MiB
    stay in a block of 1,188 MiB.
    """
    if not (_splits_any_block(run) and _copies_for_cublas(run)):
        return NOTHING
    block = -(-_table_bytes(run) // _SEGMENT_UNIT) * _SEGMENT_UNIT
    if not _room_bytes(run) < blas_workspace_bytes(run) <= block:
        return NOTHING
    # What the persistent buffers count of the workspace is not counted again.
    size_bytes = max(0, block - blas_workspace_bytes(run))
    return Sized(
        size_bytes=size_bytes,
        why=f"a freed block of {format_size(block)} in which cuBLAS's workspace lies",
    )


def _splits_any_block(run: ProfileRun) -> bool:
    """Return whether blocks are split and, where they are kept, subtracted."""
    is_counted = run.compiles and run.release.has(SUBTRACTS_CONSUMED)
    return is_counted and run.release.has(SPLITS_ANY_BLOCK)


def _copies_for_cublas(run: ProfileRun) -> bool:
    """Return whether the embeddings are copied, and cuBLAS multiplies after that."""
    if not _of_embeddings(run).size_bytes or run.has_adapters:
        return False
    if run.layout.tensor_parallel_size > 1:
        return False
    modules = [m for kind in run.model.layer_kinds for m in kind.modules]
    if any(isinstance(module, FusedMoE) for module in modules):
        return False
    if all(getattr(module, "method", None) is None for module in modules):
        return True
    return run.samples and _free_hidden_bytes(run) < blas_workspace_bytes(run)


def blas_after_layers_bytes(run: ProfileRun) -> int:
    """Return cuBLAS's workspace where the head is the first to need it.

    It counts at the end of the run, and not yet at the peak of quantised layers.

    Source: dry runs of Qwen2.5-7B in AWQ and GPTQ, and of Qwen3-8B-FP8, with 0.29.0.
    """
    if not run.release.has(SUBTRACTS_CONSUMED) or not run.samples:
        return 0
    if run.towers and not changes_stream(run):
        return 0
    if run.has_adapters or run.model.quantization in PLUGINS:
        return 0
    modules = [m for kind in run.model.layer_kinds for m in kind.modules]
    if any(isinstance(module, FusedMoE) for module in modules):
        return 0
    methods = [m.method for m in modules if isinstance(m, _PRODUCTS)]
    is_last = bool(methods) and all(method is not None for method in methods)
    return blas_workspace_bytes(run) if is_last else 0


def _free_hidden_bytes(run: ProfileRun) -> int:
    """Return the segment of a hidden state, which is free between layers and head.

    Source: PyTorch 2.13 `c10/cuda/CUDACachingAllocator.cpp` get_allocation_size.
    """
    hidden = _hidden_bytes(run)
    if hidden < _OWN_SEGMENT_BYTES:
        return _SEGMENT_BYTES
    return -(-hidden // _SEGMENT_UNIT) * _SEGMENT_UNIT


def _room_bytes(run: ProfileRun) -> int:
    """Return the largest room in segments that weights and the sampler's state share.

    Tensors between 1 and 10 MiB share segments of 20 MiB.

    Source: PyTorch 2.13 `c10/cuda/CUDACachingAllocator.cpp` get_allocation_size.
    """
    sizes = [
        tensor.elements * element_bytes(tensor.dtype or run.dtype)
        for index in run.model.layers
        for module in run.model.layer_kinds[index].modules
        for tensor in module.tensors(run.layout)
    ]
    rooms: list[int] = []
    for size in (*sizes, *sampler_state_sizes(run)):
        if not MIB < size < _OWN_SEGMENT_BYTES:
            continue
        room = min((room for room in rooms if room >= size), default=None)
        if room is None:
            room = _SEGMENT_BYTES
        else:
            rooms.remove(room)
        rooms.append(room - size)
    return max(rooms, default=0)
