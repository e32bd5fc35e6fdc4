"""Sampling in the profile run: logits of every request over the whole vocabulary.

On large GPUs, with 1,024 requests by default, sampling sets the peak of dense models.
It does not shrink with tensor parallelism, since the logits are gathered on every rank.
How many copies of the logits exist at once changed between releases; the copies found
in vLLM's code add up to its logged figures to within a few MiB.
"""

from __future__ import annotations

from planner.engine.generations import (
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.releases.change import Change
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.quantization.awq import AWQLinear
from planner.models.quantization.compressed_schemes import PackedLinear
from planner.models.quantization.gptq import GPTQLinear
from planner.units import MIB, format_size
from planner.values import frozen

_BY_MARLIN = (AWQLinear, GPTQLinear, PackedLinear)
"""Formats that Marlin serves on all GPUs but Hopper."""
_FP32, _INT64 = 4, 8
# torch.sort: values, indices, a second copy of the indices, and its own copies of keys
# and values.
_SORT = _FP32 + _INT64 + _INT64 + (_FP32 + _INT64)
# Sorting a medium number of rows at once: pairs of row and index, twice, and keys.
_SORT_ROWS = _FP32 + _INT64 + 2 * _INT64 + _FP32 + (_FP32 + _INT64)
_MANY_ROWS = 128
_TRITON_ROWS = 8
_FLASHINFER_SMS = 16
_FLASHINFER_CAPABILITIES = ((7, 5), (12, 1))
_SORTS_TO_SAMPLE = Change(
    until=(0, 17),
    what="Top-k and top-p sort the whole vocabulary with PyTorch.",
    source=(
        "vLLM 0.16.0 `v1/sample/ops/topk_topp_sampler.py` apply_top_k_top_p; 0.17.0 "
        "`v1/sample/ops/topk_topp_triton.py` (a kernel that does not sort)"
    ),
)
_SORTS_FEW_REQUESTS = Change(
    until=(0, 30),
    what=(
        "For fewer than eight requests, top-k and top-p sort the whole vocabulary with "
        "PyTorch."
    ),
    source="vLLM 0.17.0 and 0.29.0 `v1/sample/ops/topk_topp_sampler.py`",
)
_SAMPLES_WITH_FLASHINFER = Change(
    since=(0, 21),
    what="FlashInfer samples by default.",
    source="vLLM 0.21.0 `v1/sample/ops/topk_topp_sampler.py` TopKTopPSampler",
)
_V1_SAMPLES_TWICE = Change(
    since=(0, 21),
    what="The first model runner's profile run samples without FlashInfer too.",
    source=(
        "vLLM 0.21.0 and 0.33.0 `v1/worker/gpu_model_runner.py` _dummy_sampler_run "
        "(forward_native)"
    ),
)
_SAMPLES_WITH_WHAT_IS_INSTALLED = Change(
    until=(0, 11, 1),
    what="FlashInfer samples wherever it is installed, which pip does not do.",
    source="vLLM 0.11.0 and 0.11.1 `v1/sample/ops/topk_topp_sampler.py`",
)
_V2_COPIES_LOGITS = Change(
    until=(0, 26),
    what=(
        "The second model runner's sampler copies logits to fp32 even for default "
        "parameters."
    ),
    source="vLLM 0.25.1 and 0.26.0 `v1/worker/gpu/sample/sampler.py`",
)
PROFILES_ALL_PARAMETERS = Change(
    since=(0, 33),
    what=(
        "The second model runner's profile run samples with top-k and top-p, as its "
        "warm-up does."
    ),
    source=(
        "vLLM 0.27.1 and 0.33.0 `v1/worker/gpu/model_runner.py` _dummy_sampler_run; "
        "0.27.1 `v1/worker/gpu/warmup.py` warmup_kernels"
    ),
)
_LEAVES_SMALL_GPUS_OUT = Change(
    since=(0, 31),
    what="FlashInfer does not sample on GPUs of at most 16 multiprocessors.",
    source="vLLM 0.31.0 `v1/sample/ops/topk_topp_sampler.py`",
)
_KEEPS_BLAS_WORKSPACE = Change(
    until=(0, 33),
    what="cuBLAS allocates its workspace within the measured interval.",
    source=(
        "vLLM 0.33.0 `v1/worker/gpu_worker.py` init_device (a call before the first "
        "snapshot)"
    ),
)
_LARGE_BLAS_WORKSPACE_BY_FAMILY = Change(
    since=(0, 27),
    what="cuBLAS's workspace is as large on Blackwell as on Hopper.",
    source=(
        "PyTorch 2.13 (vLLM 0.27.0) `aten/src/ATen/cuda/CublasHandlePool.cpp` "
        "parseChosenWorkspaceSize; 2.11 (0.26.0) has it on compute capability 9.0 "
        "alone"
    ),
)


_HOLDS_WHOLE_HEAD = ("WhisperForConditionalGeneration",)
"""Models whose head is tied to embeddings that no rank divides: each rank computes all
logits, which vLLM gathers as if they were parts of them.

Source: vLLM 0.33.0 `models/whisper.py` WhisperDecoder (nn.Embedding),
WhisperForConditionalGeneration.proj_out; a traced dry run on two ranks.
"""


@frozen
class Sampling:
    """Peak memory of sampling, and what it keeps."""

    size_bytes: int
    kept_bytes: int
    """A buffer that the top-k kernel caches."""
    states_bytes: int = 0
    """Hidden states that are kept meanwhile."""
    why: str


@once_for_all_lengths
def sampling(run: ProfileRun) -> Sampling:
    """Return the memory of sampling on a rank; 0 where it does not sample.

    Source: vLLM 0.16.0, 0.17.0 and 0.21.0 `v1/sample/sampler.py`,
    `v1/sample/ops/topk_topp_sampler.py`, `v1/worker/gpu_model_runner.py`
    _dummy_sampler_run; 0.25.1, 0.26.0 and 0.33.0 `v1/worker/gpu/sample/sampler.py`.
    """
    if not run.samples:
        return Sampling(size_bytes=0, kept_bytes=0, why="no sampling on this rank")
    rows, vocabulary = run.num_requests, run.model.vocab_size
    copies, kept = _bytes_per_logit(run)
    hidden = run.model.hidden_size * run.element_size
    # The first runner generates random numbers of the shape of the rows that it keeps.
    chosen = rows * hidden * (1 if run.uses_v2_runner else 2)
    steps = run.max_num_batched_tokens * hidden
    row_bytes, text = vocabulary * copies, f"{copies} bytes of logits and copies"
    gathered_bytes = _gathered_row_bytes(run)
    if gathered_bytes > row_bytes:
        ranks = run.layout.tensor_parallel_size
        row_bytes = gathered_bytes
        text = f"(2 + 1/{ranks}) x {run.element_size} bytes of logits, gathered"
    if run.model.architecture in _HOLDS_WHOLE_HEAD:
        again = run.layout.tensor_parallel_size - 1
        row_bytes += again * vocabulary * run.element_size
        text += f" and {again} x {run.element_size} of further ranks" if again else ""
    size_bytes = rows * row_bytes + steps + chosen
    return Sampling(
        size_bytes=size_bytes,
        kept_bytes=kept,
        states_bytes=steps + chosen,
        why=(
            f"sampling: {rows:,} max_num_seqs x {vocabulary:,} tokens x {text} "
            f"+ hidden states {format_size(steps + chosen)} = {format_size(size_bytes)}"
        ),
    )


def _gathered_row_bytes(run: ProfileRun) -> int:
    """Return the bytes of a row of logits while ranks gather it; 0 on one rank.

    A rank's own part, the parts of all ranks one after another, and the row made of
    them.

    Source: vLLM 0.12.0 and 0.29.0
    `distributed/device_communicators/base_device_communicator.py` all_gather.
    """
    ranks = run.layout.tensor_parallel_size
    row_bytes = run.model.vocab_size * run.element_size
    return 2 * row_bytes + row_bytes // ranks if ranks > 1 else 0


def _bytes_per_logit(run: ProfileRun) -> tuple[int, int]:
    """Return the bytes alive per logit, and the bytes that stay allocated."""
    release, size = run.release, run.element_size
    if run.uses_v2_runner and not release.has(PROFILES_ALL_PARAMETERS):
        # Logits that are capped, as Gemma 2's are, are divided and multiplied anew.
        capped = size * (2 if run.model.has_softcap else 1)
        copied = size + (_FP32 if release.has(_V2_COPIES_LOGITS) else 0)
        return max(capped, copied), 0
    if uses_flashinfer_sampler(run):
        # Masked logits and probabilities beside the fp32 copy.
        flashinfer = size + 3 * _FP32
        if run.uses_v2_runner or not release.has(_V1_SAMPLES_TWICE):
            return flashinfer, 0
        again, kept = _without_flashinfer(run)
        return max(flashinfer, again), kept
    return _without_flashinfer(run)


def _without_flashinfer(run: ProfileRun) -> tuple[int, int]:
    """Return the same of PyTorch's sort, or of the Triton kernel that followed it."""
    size, rows = run.element_size, run.num_requests
    if sorts_vocabulary(run):
        is_plain = rows == 1 or rows >= _MANY_ROWS
        return size + _FP32 + (_SORT if is_plain else _SORT_ROWS), 0
    if run.uses_v2_runner:
        return size + _FP32, _triton_buffer_bytes(run)
    # Softmax and random numbers beside the fp32 copy, which is masked in place.
    return size + 3 * _FP32, _triton_buffer_bytes(run)


def sampled_bytes_per_logit(run: ProfileRun) -> int:
    """Return the bytes alive per logit when requests set top-k and top-p."""
    if uses_flashinfer_sampler(run):
        return run.element_size + 3 * _FP32
    return _without_flashinfer(run)[0]


def bytes_per_logit_without_flashinfer(run: ProfileRun) -> int:
    """Return the bytes alive per logit when vLLM's own code samples."""
    return _without_flashinfer(run)[0]


def sorts_vocabulary(run: ProfileRun) -> bool:
    """Return whether PyTorch sorts the whole vocabulary for top-k and top-p."""
    has_few = run.num_requests < _TRITON_ROWS
    return run.release.has(_SORTS_TO_SAMPLE) or (
        has_few and run.release.has(_SORTS_FEW_REQUESTS)
    )


def depends_on_installed(run: ProfileRun) -> bool:
    """Return whether FlashInfer samples if it is installed, which no argument shows."""
    low, high = _FLASHINFER_CAPABILITIES
    return (
        run.samples
        and run.release.has(_SAMPLES_WITH_WHAT_IS_INSTALLED)
        and run.use_flashinfer_sampler is None
        and low <= run.gpu.compute_capability <= high
    )


def uses_flashinfer_sampler(run: ProfileRun) -> bool:
    """Return whether FlashInfer samples the tokens.

    Source: vLLM 0.21.0 `v1/sample/ops/topk_topp_sampler.py`.
    """
    low, high = _FLASHINFER_CAPABILITIES
    if not low <= run.gpu.compute_capability <= high:
        return False
    is_small = (run.gpu.num_sms or 132) <= _FLASHINFER_SMS
    if is_small and run.release.has(_LEAVES_SMALL_GPUS_OUT):
        return False
    requested = run.use_flashinfer_sampler
    if requested is None:
        return run.release.has(_SAMPLES_WITH_FLASHINFER)
    return requested


def _triton_buffer_bytes(run: ProfileRun) -> int:
    """Return the kernel's buffer: one row of the vocabulary per multiprocessor.

    Source: vLLM 0.17.0 `v1/sample/ops/topk_topp_triton.py` _TRITON_BUFFER_CACHE.
    """
    sms = run.gpu.num_sms or 132
    rows = min(sms, run.num_requests)
    power = 1 << (rows - 1).bit_length()
    return min(power, sms) * run.model.vocab_size * _FP32


def changes_stream(run: ProfileRun) -> bool:
    """Whether Marlin is the first to ask for vLLM's own stream.

    On several ranks NCCL is, before cuBLAS's first call.

    Source: vLLM 0.33.0 `utils/torch_utils.py` current_stream,
    `layers/quantization/utils/marlin_utils.py` (locks of _marlin_gemm), a traced dry
    run of Qwen2.5-1.5B-Instruct-AWQ on B200.
    """
    if run.layout.world_size > 1 or run.gpu.compute_capability == HOPPER:
        return False
    modules = (m for kind in run.model.layer_kinds for m in kind.modules)
    return any(isinstance(getattr(m, "method", None), _BY_MARLIN) for m in modules)


def blas_workspace_bytes(run: ProfileRun) -> int:
    """Return cuBLAS's workspace, which PyTorch allocates at the first matrix product.

    It does so for each stream.

    Source: PyTorch 2.11 and 2.13 `aten/src/ATen/cuda/CublasHandlePool.cpp`
    parseChosenWorkspaceSize; confirmed by vLLM 0.11 and 0.19 logs.
    """
    if not run.release.has(_KEEPS_BLAS_WORKSPACE) and not changes_stream(run):
        return 0
    capability = run.gpu.compute_capability
    if run.release.has(_LARGE_BLAS_WORKSPACE_BY_FAMILY):
        is_large = capability[0] in (
            HOPPER.major,
            DATACENTER_BLACKWELL.major,
            WORKSTATION_BLACKWELL.major,
        )
    else:
        is_large = capability == HOPPER
    return 32 * MIB if is_large else 8 * MIB + MIB // 8
