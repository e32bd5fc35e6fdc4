"""What API servers keep for images and videos, on the GPU and in CPU memory."""

import pytest

import planner
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.media.frontend import DECODING
from planner.units import GIB, MIB

QWEN = "Qwen/Qwen2.5-VL-3B-Instruct"
ON_GPU = {"video": {"video_backend": "pynvvideocodec"}}


def plan(model=QWEN, **arguments):
    """A plan with 8,192 tokens on an H100."""
    return planner.plan(model, gpu="H100", max_model_len=8192, **arguments)


def reserved(**arguments):
    """Bytes taken off the KV cache for videos."""
    lines = plan(**arguments).limiting_rank.lines
    return sum(line.size_bytes for line in lines if line.name == DECODING)


def cached(model=QWEN, **arguments):
    """Bytes of the cache of processed images on the first node."""
    (account, *_others) = plan(model, **arguments).host
    return sum(n.size_bytes for n in account.lines if n.name == "processed images")


def test_room_for_decoded_frames():
    """2 GiB, whatever the servers; none of a model of text."""
    assert reserved() == 0
    assert reserved(mm_ipc_gpu_memory_gb=2) == 2 * GIB
    whole, less = plan(), plan(mm_ipc_gpu_memory_gb=2)
    lost = whole.limiting_rank.available_kv_cache_bytes - 2 * GIB
    assert less.limiting_rank.available_kv_cache_bytes == lost
    text = plan("Qwen/Qwen3-8B")
    assert text.changed(mm_ipc_gpu_memory_gb=2).ranks == text.ranks


def test_decoders_of_the_gpu():
    """2 x 128 MiB and 1.8 GiB; one of 128 MiB where another codec decodes.

    Frames of 8,192 x 4,320 pixels have surfaces of 3 x 2 bytes a pixel.
    """
    context = int(1.8 * 1024 * MIB)
    assert reserved(media_io_kwargs=ON_GPU) == 2 * 128 * MIB + context
    other = {"video": {"backend": "deepstream"}}
    assert reserved(media_io_kwargs=other) == 128 * MIB + context
    large = {"video": {**ON_GPU["video"], "max_width": 8192, "max_height": 4320}}
    assert reserved(media_io_kwargs=large) == 2 * 8192 * 4320 * 6 + context
    two = reserved(media_io_kwargs=ON_GPU, data_parallel_size=2)
    assert two == 2 * (2 * 128 * MIB + context)
    assert reserved(env={"VLLM_VIDEO_LOADER_BACKEND": "pynvvideocodec"})


def test_a_fixed_cache_gives_its_room_too():
    """10 GiB less 2."""
    rank = plan(mm_ipc_gpu_memory_gb=2, kv_cache_memory_bytes=10 * GIB).limiting_rank
    assert rank.available_kv_cache_bytes == 8 * GIB


def test_videos_that_leave_no_room():
    """In vLLM's words."""
    error = plan(mm_ipc_gpu_memory_gb=70).error
    assert error.message.startswith(
        "frontend multimodal GPU decoding reserves 70.00 GiB (70.00 GiB raw-frame "
        "budget, 0.00 GiB decoder cache budget), but only "
    )


def test_what_cannot_be():
    """Decoders from 1, both sides or none, from 0.28.0 on."""
    for options in ({"hw_decoders": 0}, {"max_width": 64}):
        video = {"video": {**ON_GPU["video"], **options}}
        assert plan(media_io_kwargs=video).error.kind == "refused"
    with pytest.raises(PlannerError, match="media_io_kwargs"):
        plan(media_io_kwargs={"video": 3})
    with pytest.raises(UnknownArchitecture, match="mm_ipc_gpu_memory_gb"):
        plan(mm_ipc_gpu_memory_gb=1, vllm_version="0.26.0")
    message = plan(mm_shm_cache_max_object_size_mb=64).error.message
    assert "should only be set when 'mm_processor_cache_type' is 'shm'." in message
    shared = {"mm_processor_cache_type": "shm", "mm_shm_cache_max_object_size_mb": 64}
    assert plan(**shared).error is None


def test_one_engine_keeps_processed_images_once():
    """4 GiB unless told; in shared memory as many; none where there is none."""
    assert cached() == 4 * GIB
    assert cached(mm_processor_cache_gb=1.5) == int(1.5 * GIB)
    assert cached(mm_processor_cache_type="shm") == 4 * GIB
    assert cached(mm_processor_cache_gb=0) == 0
    assert cached(language_model_only=True) == 0
    assert cached("Qwen/Qwen3-8B") == 0


def test_each_of_several_servers_has_a_cache():
    """Two engines have two API servers of 4 GiB each."""
    assert cached(data_parallel_size=2) == 8 * GIB


def test_older_releases_had_one_on_both_sides():
    """0.10.1: 4 GiB in server and engine; 0.10.0: 8 GiB unless told."""
    assert cached(vllm_version="0.10.1") == 8 * GIB
    assert cached(vllm_version="0.10.0") == 16 * GIB
    env = {"VLLM_MM_INPUT_CACHE_GIB": "2"}
    assert cached(vllm_version="0.10.0", env=env) == 4 * GIB
    assert cached(vllm_version="0.12.0", env=env) == 2 * GIB
    assert cached(vllm_version="0.13.0", env=env) == 4 * GIB
