"""Links: every plan comes back as it was, and no link can harm who opens it."""

from __future__ import annotations

import os
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import GPU, Inputs, PlannerError
from planner.app.widgets import explorer
from planner.engine.arguments import ARGUMENTS as TABLE
from planner.engine.arguments import Memory, named
from planner.engine.gpu import Processor, catalogue
from planner.engine.releases import NEWEST
from planner.engine.settings import EngineSettings
from planner.export import link, read_link
from planner.export.links import is_carried, why_kept_out
from planner.export.reading_links import DEFAULT_GPU, LONGEST_LINK, MOST_PARTS
from planner.models import catalogue as models

MODEL = "Qwen/Qwen3-8B"
DEFAULT = Inputs(model=explorer.DEFAULT_MODEL, gpu=explorer.DEFAULT_GPU)


def plan(**arguments):
    """Return a plan of a small model."""
    return planner.plan(arguments.pop("model", MODEL), **arguments)


def opened(plan_, **options):
    """Return the plan that a plan's own link opens; nothing may be left out."""
    read = read_link(link(plan_, **options))
    assert () == read.ignored
    return read.inputs.plan()


def test_a_link_reads_like_the_command():
    """Model and GPU first, then vLLM's own names."""
    planned = plan(max_model_len=32768, kv_cache_dtype="fp8", enforce_eager=True)

    assert (
        f"?model=Qwen/Qwen3-8B&gpu=H100&vllm_version={NEWEST}&kv_cache_dtype=fp8"
        "&max_model_len=32768&enforce_eager=true"
    ) == link(planned)


def test_a_page_s_own_address_is_kept():
    """Its query goes on, its fragment stays behind."""
    query = link(plan())[1:]

    assert f"http://host/app?{query}" == link(plan(), "http://host/app")
    assert f"http://host/app?a=1&{query}#top" == link(plan(), "http://host/app?a=1#top")
    assert plan() == read_link(link(plan(), "http://host/app")).inputs.plan()


ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "max_model_len": st.one_of(
            st.integers(1, 40960), st.sampled_from(["auto", -1])
        ),
        "max_num_seqs": st.integers(1, 2048),
        "max_num_batched_tokens": st.integers(2048, 65536),
        "gpu_memory_utilization": st.floats(0.1, 1.0),
        "kv_cache_memory_bytes": st.one_of(
            st.integers(10**9, 10**11), st.sampled_from(["10GiB", "7000000000"])
        ),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8", "bfloat16"]),
        "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel_size": st.sampled_from([1, 2]),
        "enforce_eager": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "cudagraph_capture_sizes": st.lists(
            st.integers(1, 512), min_size=1, max_size=5, unique=True
        ).map(lambda sizes: tuple(sorted(sizes))),
        "limit_mm_per_prompt": st.dictionaries(
            st.sampled_from(["image", "video"]), st.integers(0, 4)
        ),
        "cpu_offload_gb": st.floats(0, 4),
        "enable_lora": st.just(True),
        "max_lora_rank": st.sampled_from([8, 64]),
        "served_model_name": st.text(min_size=1).filter(str.isprintable),
        "override_generation_config": st.dictionaries(
            st.sampled_from(["temperature", "top_p", "top_k", "max_new_tokens"]),
            st.one_of(st.floats(0, 2), st.booleans(), st.none()),
        ),
        "seed": st.integers(0, 2**31),
        "disable_log_stats": st.booleans(),
        "offload_group_size": st.just(0),
    },
)


@given(
    ARGUMENTS,
    st.sampled_from(["H100", "L4", "A100-80GB", "H200-MIG-3g.71gb"]),
    st.sampled_from(["serve", "llm"]),
    st.sampled_from([{}, {"VLLM_USE_FLASHINFER_SAMPLER": "1"}]),
)
def test_a_link_opens_the_same_plan(arguments, gpu, entrypoint, env):
    """Whatever a plan holds, its link brings back, types included."""
    planned = plan(gpu=gpu, entrypoint=entrypoint, env=env, **arguments)

    assert planned == opened(planned)


@given(
    st.sampled_from([None, *(gpu.name for gpu in catalogue())]),
    st.integers(2**30, 2**40),
    st.fixed_dictionaries(
        {},
        optional={
            "device_name": st.sampled_from(["NVIDIA X & Y", "a=b", "100 % new"]),
            "num_sms": st.one_of(st.none(), st.integers(1, 300)),
            "compute_capability": st.sampled_from([(7, 5), (9, 0), (12, 1)]),
            "is_integrated": st.booleans(),
            "is_under_wsl": st.booleans(),
            "memory_bandwidth_bytes_per_second": st.integers(10**9, 10**13),
        },
    ),
)
def test_a_gpu_of_one_s_own_comes_back(name, total_bytes, facts):
    """Of a known GPU only what differs is written."""
    facts = {"compute_capability": (9, 0), **facts, "total_memory_bytes": total_bytes}
    gpu = GPU(name="My GPU", **facts) if name is None else GPU.named(name, **facts)
    planned = plan(gpu=gpu)

    assert gpu == opened(planned).gpu


def test_a_processor_comes_back():
    """Memory, instruction sets and node of the machine that vLLM's CPU build uses."""
    cpu = GPU(
        name="CPU",
        total_memory_bytes=64 * 2**30,
        processor=Processor(flags=("avx2", "avx512f"), memory_node=1),
    )

    assert cpu == opened(plan(gpu=cpu, max_model_len=2048)).gpu


def test_an_older_release_stays():
    """A link says which release it was made for, so that figures do not move."""
    planned = plan(vllm_version="0.19.0")

    assert "0.19.0" == opened(planned).vllm_version


def test_a_folder_of_this_machine_is_no_link(tiny_folder):
    """Another machine has other folders, or none."""
    planned = planner.plan(tiny_folder)

    with pytest.raises(PlannerError, match="folder or file"):
        link(planned)


def test_what_has_no_place_in_a_link_is_left_out_of_it():
    """A token is a secret, a folder is this machine's; the memory is the same."""
    planned = plan(
        hf_token="hf_secret",
        download_dir="/data",
        env={"HF_TOKEN": "hf_secret", "VLLM_USE_FLASHINFER_SAMPLER": "1"},
    )
    text = link(planned)

    assert "secret" not in text
    assert "data" not in text
    assert planned.ranks == opened(planned).ranks


def test_no_link_opens_the_default_plan():
    """An empty query is the explorer as it starts."""
    for text in ("", "?", "http://127.0.0.1:8866/", "#top", "&&"):
        assert DEFAULT == read_link(text).inputs
        assert () == read_link(text).ignored
    assert explorer.DEFAULT_GPU == DEFAULT_GPU


HARMFUL = {
    "model=/etc": "bundled model or owner/name",
    "model=/etc/passwd": "bundled model or owner/name",
    "model=../secrets": "bundled model or owner/name",
    "model=~/models": "bundled model or owner/name",
    "model=./planner": "bundled model or owner/name",
    "model=planner": "bundled model or owner/name",
    "model=C:\\models": "bundled model or owner/name",
    "model=file:///etc/passwd": "bundled model or owner/name",
    "model=http://evil.example/a/b": "bundled model or owner/name",
    "model=a/b@../../c": "bundled model or owner/name",
    "model=a/b/c": "bundled model or owner/name",
    "model=": "bundled model or owner/name",
    "model=<script>alert(1)</script>": "<script>",
    "gpu=attached": "not in the catalogue",
    "gpu=CPU": "memory",
    "gpu=H999": "Nearest",
    "gpu=H100&gpu.total_memory_bytes=-1": "whole number",
    "gpu=H100&gpu.total_memory_bytes=1&gpu.free_memory_bytes=2": "more than",
    "gpu=H100&gpu.__class__=x": "not a property of a GPU",
    "vllm_version=0.1.0": "older than",
    "vllm_version=99999999999999999999.0": "not a release",
    "vllm_version=0.33.0%2B<b>": "not a release",
    "entrypoint=shell": "shell",
    "trust_remote_code=true": "decide about it on the page",
    "worker_extension_cls=os.system": "names code",
    "hf_config_path=/etc": "names a folder",
    "hf_token=x": "is a secret",
    "download_dir=/tmp": "names a folder",
    "worker_cls=os.system": "worker_cls",
    "compilation_config=[1]": "table",
    'hf_overrides={"a":1}': "hf_overrides",
    "env.LD_PRELOAD=/tmp/x.so": "only those that decide memory",
    "env.HF_TOKEN=x": "only those that decide memory",
    "env.VLLM_CPU_KVCACHE_SPACE=much": "whole number",
    "max_model_len=banana": "whole number",
    "max_model_len=1&max_model_len=2": "given twice",
    "enforce_eager=maybe": "True or False",
    "max_num_seqs=1e999": "whole number",
    "max_num_seqs=true": "whole number",
    "gpu_memory_utilization=NaN": "above 0",
    "gpu_memory_utilization=7": "above 0",
    "pipeline_parallel_size=100000000": "at most 1,024",
    "max_cudagraph_capture_size=1000000000": "at most 65,536",
    "cpu_offload_gb=1e300": "from 0 to 1,000,000,000",
    "cudagraph_capture_sizes=1,x": "whole numbers",
    "cudagraph_capture_sizes={}": "whole numbers",
    "limit_mm_per_prompt=3": "names and values",
    "limit_mm_per_prompt=" + "[" * 3000: "names and values",
    "dtype=float9": "dtype",
    "seed%00=1": "no argument has such a name",
    "max_model_len=1%00": "not text",
    "served_model_name=a%E2%80%AEb": "not text",
    "served_model_name=" + "x" * 5000: "longer than",
    "x" * 200 + "=1": "no argument has such a name",
    "colour=red": "colour",
    "a.b=1": "a.b",
    "__class__=1": "__class__",
    "others=1": "others",
}


@pytest.mark.parametrize("query", HARMFUL)
def test_what_a_link_may_not_say_is_named_and_left_out(query):
    """The rest opens; the sentence says what was wrong with it."""
    read = read_link(f"?{query}&kv_cache_dtype=fp8")

    assert any(HARMFUL[query] in sentence for sentence in read.ignored), read.ignored
    assert "fp8" == read.inputs.engine_args["kv_cache_dtype"]
    assert read.inputs.plan().ranks
    assert read.inputs.env == {}
    assert explorer.DEFAULT_MODEL == read.inputs.model


def test_a_folder_beside_the_server_is_not_read_in_a_model_s_place(
    tmp_path, monkeypatch
):
    """The Hub's address is not a path; the same name may lie in the working folder."""
    name, here = "Qwen/Qwen3-8B", plan()
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    read = read_link(f"?model={name}")

    assert not os.path.exists(str(read.inputs.model))  # noqa: PTH110 - as a reader asks
    assert name == read.inputs.plan().name
    assert here.ranks == read.inputs.plan().ranks


def test_a_link_that_is_too_long_opens_the_default_plan():
    """Its length is what the sentence names."""
    read = read_link("?model=Qwen/Qwen3-8B&" + "a" * LONGEST_LINK)

    assert DEFAULT == read.inputs
    assert "8,021 characters" in read.ignored[0]


def test_a_link_of_too_many_parts_is_read_as_far_as_the_limit():
    """Sentences are bounded too: a page shows them."""
    read = read_link("&".join(f"a{n}=1" for n in range(MOST_PARTS + 5)))

    assert "205 parts" in read.ignored[0]
    assert len(read.ignored) == 21
    assert "And 181 more." == read.ignored[-1]


def test_what_servers_add_for_themselves_is_no_concern_of_the_reader():
    """A notebook server's token is neither shown nor an argument."""
    assert () == read_link("?token=abc&voila-theme=dark").ignored


def test_a_model_that_is_not_bundled_is_not_fetched_to_read_a_link():
    """Opening costs nothing; who looks at the page may read the model then."""
    read = read_link("?model=someone/their-model@v1.0&max_model_len=4096")

    assert "someone/their-model@v1.0" == read.inputs.model
    assert () == read.ignored


def test_every_argument_is_either_carried_or_kept_out_with_a_reason():
    """An argument that names a file or code is not carried."""
    telling = ("path", "dir", "cls", "plugin", "token", "file", "addr", "endpoint")
    harmless = {
        # No path: what a name merely resembles, or what only "off" is taken for.
        "custom_histogram_buckets",
        "disable_nccl_for_dp_synchronization",
        *named(Memory.UNKNOWN),
        "dbo_decode_token_threshold",
        "dbo_prefill_token_threshold",
        "tokens_only",
        "max_lora_cls_labels",
        "max_num_batched_tokens",
        "spec_tokens",
        "long_prefill_token_threshold",
        "long_prefill_token_threshold_adaptive",
        "max_num_queued_tokens",
        "max_num_scheduled_tokens",
        "skip_tokenizer_init",
        "skip_mm_profiling",
        "prefix_cache_retention_interval",
    }

    assert all(is_carried(name) != bool(why_kept_out(name)) for name in TABLE)
    assert [] == [
        name
        for name in sorted(set(filter(is_carried, TABLE)) - harmless)
        if any(word in name for word in telling)
    ]


NAMES = st.sampled_from(
    [
        *("model", "gpu", "gpu.total_memory_bytes", "vllm_version", "entrypoint"),
        *("gpu.compute_capability", "gpu.num_sms", "gpu.processor.flags"),
        *("env.VLLM_PP_LAYER_PARTITION", "env.VLLM_ATTENTION_BACKEND"),
        *("gpu.free_memory_bytes", "gpu.is_integrated", "gpu.nvml_memory_bytes"),
        *sorted(EngineSettings.__dataclass_fields__),
        *sorted({*named(Memory.NONE), *named(Memory.UNKNOWN)}),
    ]
)
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        [
            *("true", "false", "null", "[]", "{}", "[1]", '{"image":-1}', "1,2", ""),
            *("H100", "CPU", "Qwen/Qwen3-8B", "auto", "fp8", "0", "-1", "1", "2", "4"),
            *("0.19.0", "llm", "9.0", "8192", "1e9", "10G", '"', "[[[", '{"image":{}}'),
            *("99999999999999999", '{"image":{"count":[]}}', "17,19", "a,b"),
        ]
    ),
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_any_values_open_a_plan(pairs):
    """Known names with whatever values: what is left can be planned."""
    read = read_link("?" + urlencode(pairs, quote_via=quote))

    assert isinstance(read.inputs, Inputs)
    assert all(len(sentence) <= 310 for sentence in read.ignored)
    if models.find(str(read.inputs.model)):
        assert read.inputs.plan().gpu


@given(st.text())
def test_any_text_opens_a_plan(text):
    """A link is anything that anybody typed."""
    assert read_link(text).inputs.plan().name


NO_ARGUMENT = st.text(max_size=70).filter(lambda name: name not in TABLE)


@given(st.lists(st.tuples(NO_ARGUMENT, st.text()), max_size=4))
def test_every_part_is_taken_or_named(pairs):
    """Nothing is left out in silence."""
    read = read_link("?" + urlencode(pairs))

    assert DEFAULT == read.inputs
    assert len(pairs) == len(read.ignored)


def test_half_of_a_character_is_refused() -> None:
    """No address holds one, wherever it is."""
    half = planner.plan("Qwen/Qwen3-8B", eplb_config={"step_interval": "a\udcff"})
    with pytest.raises(PlannerError, match="no link can have it"):
        planner.export.link(half)
