"""Questions in words."""

from __future__ import annotations

import pytest

import planner
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.reading.account import Use
from planner.reading.questions.asking import questions_in
from planner.reading.reading import Kind
from planner.units import MIB


@pytest.mark.parametrize(
    ("text", "gpu", "gpus"),
    [
        ("Qwen3-8B on two RTX 3090s", "RTX3090", 2),
        ("3x4090 for Qwen3-8B?", "RTX4090", 3),
        ("Qwen3-8B, H100 x 4", "H100", 4),
        ("dual a100 40gb Qwen3-8B", "A100-40GB", 2),
        ("will Qwen3-8B run on my 3060?", "RTX3060", None),
        ("Can an A6000 run Qwen3-8B", "A6000", 1),
        ("Qwen3-8B on a g5.12xlarge", "A10G", 4),
        ("Qwen3-8B on two nodes of 8 H100 each", "H100", 16),
        ("我想在两张4090上跑Qwen3-8B", "RTX4090", 2),
        ("Qwen3-8B, 10 users?", None, None),
    ],
)
def test_gpus(text, gpu, gpus) -> None:
    """By name, with the number before or after it; open where it is not told."""
    found = planner.read(text)
    assert found.kind is Kind.QUESTION
    assert getattr(found.gpu, "name", found.gpu) == gpu
    assert found.gpus == gpus
    assert found.open == (() if gpu else ("The GPU is not named.",))


LISTED = """
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-6d1a8a0c-0b8e-5b1b-8e1d-3c2f4a5b6c7d)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-7e2b9b1d-1c9f-6c2c-9f2e-4d305b6c7d8e)
"""


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (f"Does Qwen3-8B fit on GPU 0?{LISTED}", 1),
        (f"Does Qwen3-8B fit on GPU 1?{LISTED}", 1),
        (f"Does Qwen3-8B fit here?{LISTED}", 2),
        ("Qwen3-8B on GPU 0 and GPU 1, both A100-80GB?", 2),
        ("Qwen3-8B, A100-80GB, GPU 4?", 4),
    ],
)
def test_the_number_of_a_gpu_is_no_count(text, gpus) -> None:
    """As `nvidia-smi -L` gives them; where none is 0 and none is listed, it counts."""
    found = planner.read(text)
    assert (getattr(found.gpu, "name", None), found.gpus) == ("A100-80GB", gpus)
    assert not any("left aside" in note for note in found.notes)


TABLE = """
+-----------------------------------------+------------------------+--------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util     |
|=========================================+========================+==============|
|   0  NVIDIA L40S                    On  |   00000000:01:00.0 Off |            0 |
| N/A   30C    P8             35W /  350W |    4096MiB /  46068MiB |      0%      |
+-----------------------------------------+------------------------+--------------+
"""


def test_what_nvidia_smi_prints_beside_a_question_is_its_machine() -> None:
    """With what is free of it; none of its numbers is one of the question."""
    found = planner.read(f"Will Qwen3-8B at 16k fit?{TABLE}")

    assert isinstance(found.gpu, GPU)
    assert ("L40S", 1, {"max_model_len": 16_384}) == (
        found.gpu.name,
        found.gpus,
        found.engine_args,
    )
    assert found.gpu.total_memory_bytes - 4096 * MIB == found.gpu.free_memory_bytes
    assert not any("left aside" in note for note in found.notes)
    assert not any(one.use is Use.NOT_UNDERSTOOD for one in found.account)


def test_a_name_and_nothing_else_is_a_model() -> None:
    """With what its words are taken for."""
    found = planner.read("Llama 3.3 70B")
    assert found.kind is Kind.MODEL
    assert found.model == "meta-llama/Llama-3.3-70B-Instruct"
    assert found.notes


def test_one_copy_is_split_over_all_gpus() -> None:
    """Within a node by tensor parallelism, over nodes by stages."""
    found = planner.read("Qwen3-235B-A22B on two nodes of 8 H100 each")
    assert found.engine_args == {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 2,
    }
    assert "One copy of the model over all of the GPUs is meant." in found.notes


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("with 32k context", 32 * 1024),
        ("context of 32,768", 32_768),
        ("max context 8192 tokens", 8192),
        ("at 128K", 128 * 1024),
        ("1M context", 1024**2),
        ("for $10k", None),
        ("please", None),
    ],
)
def test_context(words, length) -> None:
    """32k is 32,768 tokens; a price is no length."""
    found = planner.read(f"Qwen3-8B on L4 {words}")
    assert found.engine_args.get("max_model_len") == length


@pytest.mark.parametrize(
    ("words", "load"),
    [
        # A request's whole length: 8,192 = 6,144 + 2,048.
        (
            "20 users, 8k context",
            Load(prompt_tokens=6144, output_tokens=2048, requests=20),
        ),
        (
            "50 concurrent requests of 16k tokens",
            Load(prompt_tokens=12_288, output_tokens=4096, requests=50),
        ),
        (
            "4k in / 1k out, 100 users",
            Load(prompt_tokens=4096, output_tokens=1024, requests=100),
        ),
        ("concurrency 8", Load(prompt_tokens=3072, output_tokens=1024, requests=8)),
    ],
)
def test_users(words, load) -> None:
    """The plan is then of this load: max_model_len and max_num_seqs follow."""
    found = planner.read(f"Qwen3 32B on H100, {words}")
    assert found.load == load
    assert found.to_dict()["load"]["requests"] == load.requests
    plan = found.plan()
    assert plan.load == load
    assert plan.resolved is not None
    assert plan.resolved.max_model_len == load.request_tokens
    assert plan.resolved.max_num_seqs == load.requests


@pytest.mark.parametrize(
    ("text", "model", "arguments"),
    [
        ("Qwen3 32B in FP8 on L40S", "Qwen/Qwen3-32B-FP8", {}),
        (
            "4bit llama 3.1 8b on an L4",
            "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
            {},
        ),
        ("Qwen3-8B on L4, fp8 kv cache", "Qwen/Qwen3-8B", {"kv_cache_dtype": "fp8"}),
        ("Qwen3-8B on L4, KV cache is q8", "Qwen/Qwen3-8B", {"kv_cache_dtype": "fp8"}),
        (
            "Qwen3-8B on L4 with q4_0 cache",
            "Qwen/Qwen3-8B",
            {"kv_cache_dtype": "int4_per_token_head"},
        ),
        ("gpt-oss-120b in fp8 on H100", "openai/gpt-oss-120b", {}),
    ],
)
def test_formats(text, model, arguments) -> None:
    """A published checkpoint, else an estimated one; said in a note."""
    found = planner.read(text)
    assert found.model == model
    assert found.engine_args == arguments
    assert arguments or found.notes


def test_memory_alone_is_a_gpu_of_that_size() -> None:
    """The others of that size are named."""
    found = planner.read("phi 4 on 24 GB VRAM")
    gpu = planner.GPU.named(found.gpu)
    assert 0.9 * 24 <= gpu.total_memory_bytes / 2**30 <= 24
    assert any("RTX4090" in note and "L4" in note for note in found.notes)


def test_each_model_on_each_gpu_is_a_start() -> None:
    """In the order of the text."""
    text = "Is an H100 or an H200 better for Qwen3-32B?"
    second = planner.read(text, start=2)
    assert (second.model, second.gpu.name, second.num_starts) == (
        "Qwen/Qwen3-32B",
        "H200",
        2,
    )
    with pytest.raises(PlannerError, match="holds 2 starts"):
        planner.read(text, start=3)


def test_release_and_flags_count_too() -> None:
    """As written."""
    found = planner.read("vLLM 0.30.1 with Qwen3 8B --max-model-len 8192 on L4")
    assert found.vllm_version == "0.30.1"
    assert found.engine_args == {"max_model_len": 8192}


def test_an_error_with_a_model_in_words_is_still_an_error() -> None:
    """Its model is the one that is named."""
    found = planner.read("CUDA out of memory with Llama 3.1 8B on my 4090: help")
    assert found.kind is not Kind.QUESTION
    assert found.model == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "text",
    [
        "ollama run llama3.1:70b on two 3090s",
        "kubectl apply -f qwen3-8b.yaml",
        "x" * 3000,
        "model = AutoModel.from_pretrained('Qwen/Qwen3-8B')",
        "base:\n  model: Qwen/Qwen3-8B\n  sequence_len: 8192",
        "<p>Qwen3 8B on an L4</p>",
        "Qwen3 8B\n" * 20,
    ],
)
def test_what_is_no_question(text) -> None:
    """Another engine or command, code, a configuration, markup, a long text."""
    with pytest.raises(PlannerError):
        planner.read(text)


def told(reading: planner.Reading) -> str:
    """What a question asks, in one line: intent, model, GPUs, load, arguments."""
    load = reading.load
    gpu = getattr(reading.gpu, "name", reading.gpu)
    parts = [reading.intent, (reading.model or "?").rpartition("/")[2]]
    parts.append(f"{reading.gpus or ''}x{gpu}" if gpu else "?")
    if load is not None:
        parts.append(f"{load.requests}*({load.prompt_tokens}+{load.output_tokens})")
    parts += [f"{name}={value}" for name, value in reading.engine_args.items()]
    return " ".join(parts)


TP2, LIMIT = "tensor_parallel_size=2", "max_model_len"
ASKED = {
    "Can Qwen3-32B-AWQ run on dual RTX 3090 at 8k?": "fits Qwen3-32B-AWQ 2xRTX3090 "
    f"{TP2} {LIMIT}=8192",
    "100k prompt tokens, 500 answer tokens: Qwen3-8B on H100?": "fits Qwen3-8B xH100 "
    "1*(102400+500)",
    "Qwen3-32B on A100 80GB: 500 in / 200 out, 200 concurrent": "fits Qwen3-32B "
    "xA100-80GB 200*(500+200)",
    "How many users fit on 2x L40S with Qwen3-32B-AWQ?": "users Qwen3-32B-AWQ 2xL40S "
    f"{TP2}",
    "Which LLMs can I run on a 48GB A6000?": "which_models ? 1xA6000",
    "Qwen3-8B on H100 TP2 DP=2, util 0.85": "fits Qwen3-8B xH100 "
    f"{TP2} data_parallel_size=2 gpu_memory_utilization=0.85",
    "What is the max context of Qwen3-14B on a 4090?": "other Qwen3-14B 1xRTX4090",
    "Zwei A100 mit 40 GB: reicht das für Qwen3-32B und 8 Nutzer mit je 4.000 Tokens?": (
        f"fits Qwen3-32B 2xA100-40GB 8*(3000+1000) {TP2}"
    ),
    "Wie schnell ist Qwen3-8B auf einer L4?": "speed Qwen3-8B 1xL4",
    "Welche Karte ist am günstigsten für Qwen3-14B, 20 Anfragen gleichzeitig?": (
        "cheapest Qwen3-14B ? 20*(3072+1024)"
    ),
    "Deux A100 40 Go suffisent pour Qwen3-32B avec 32 768 tokens ?": "fits Qwen3-32B "
    f"2xA100-40GB {TP2} {LIMIT}=32768",
    "Combien d'utilisateurs à la fois pour Qwen3-14B sur une L40S ?": "users Qwen3-14B "
    "1xL40S",
    "¿Caben cuatro imágenes con Qwen2.5-VL-7B-Instruct en una L4?": (
        "fits Qwen2.5-VL-7B-Instruct 1xL4 limit_mm_per_prompt={'image': 4}"
    ),
    "¿Qué tarjeta más barata para Qwen3-14B, 20 usuarios y 8 mil tokens?": (
        "cheapest Qwen3-14B ? 20*(6000+2000)"
    ),
    "４张４０９０跑Qwen3-32B-AWQ，上下文３２ｋ，１０个并发，够吗？": (  # noqa: RUF001 - full width
        "fits Qwen3-32B-AWQ 4xRTX4090 10*(24576+8192) tensor_parallel_size=4"
    ),
    "两台服务器，每台 8 张 H100，能部署 DeepSeek-V3 吗？": (  # noqa: RUF001 - full width
        "fits DeepSeek-V3 16xH100 tensor_parallel_size=8 pipeline_parallel_size=2"
    ),
    "24G 显存能跑什么模型？": "which_models ? xL4",  # noqa: RUF001 - full width
    "H100 2枚で Qwen3-32B を 50 ユーザー同時に使えますか？": (  # noqa: RUF001 - full width
        f"fits Qwen3-32B 2xH100 50*(3072+1024) {TP2}"
    ),
    "なぜ RTX 4090 で Qwen3-14B がメモリ不足になるのですか？": (  # noqa: RUF001 - full width
        "why Qwen3-14B xRTX4090"
    ),
}


def test_six_languages() -> None:
    """What is asked, of which model, on how many GPUs, for which load."""
    assert {text: told(planner.read(text)) for text in ASKED} == ASKED


NAMED = {
    "Qwen3-4B on an 8GB RTX 3050?": "RTX 3050",
    "Qwen3-8B on a MacBook with M3 Max?": "M3 Max",
    "Qwen3-8B on L4, 9 users, 5 requests per second": '"5" is left aside: a rate',
    "Qwen3-8B on L4, 90 % shared system prompt": '"90 %" is left aside',
    "Qwen3-8B with 10 images on an L4": '"10 images" left aside',
    "Qwen3-8B on L4, 16k context, 32k context?": '"32k" is left aside: another number',
    "Can I fine-tune Qwen3-8B on an L4?": "Not answered: training is not planned",
    "Foo-13B on an L4?": '"Foo-13B" is not in the catalogue',
    "Falcon 180B on 8 A100?": '"Falcon 180B" is not in the catalogue',
    "Qwen3-8B on an L4 with 17 gizmos of floating wonder": '"17" is left aside',
    "Qwen3-8B on L4, from 0.11.0 to 0.19": "From vLLM 0.11.0 to 0.19.",
}


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("20 users, prompts of 5000 tokens, 90 % shared, Qwen3-8B on L4?", 4500),
        (
            "20 users with a shared system prompt of 2000 tokens, prompts of 5000 "
            "tokens, Qwen3-8B on L4?",
            2000,
        ),
        ("20 users, prompts of 500 tokens, 2000 tokens shared, Qwen3-8B on L4?", 0),
    ],
)
def test_what_prompts_share_is_part_of_the_load(text: str, shared: int) -> None:
    """In tokens, or as a share of the prompt; more than a prompt has is left aside."""
    found = planner.read(text)

    assert found.load is not None
    assert shared == found.load.shared_prefix_tokens
    assert (shared == 0) == any("is left aside: tokens" in one for one in found.notes)


def test_what_cannot_be_used_is_named() -> None:
    """As it is written: nothing is dropped, and nothing stands for it."""
    read = {text: planner.read(text) for text in NAMED}
    said = {text: " ".join((*one.open, *one.notes)) for text, one in read.items()}
    assert [] == [text for text, words in NAMED.items() if words not in said[text]]


def test_an_account_of_a_question() -> None:
    """Names and numbers are used, what is not used is not understood."""
    text = "Qwen3-8B on two L4, 4 users, 64 GB RAM"
    pieces = planner.read(text).account
    assert {
        "used": ["Qwen3-8B", "two L4", "4 users"],
        "not understood": ["64 GB"],
    } == {
        use: [text[one.start : one.end] for one in pieces if one.use.value == use]
        for use in ("used", "not understood")
    }


def test_what_asks_nothing_is_no_question() -> None:
    """Thanks, minutes, small talk and praise."""
    texts = (
        "Thanks, that solved it! The driver was too old, nothing to do with vLLM.",
        "I moved to vLLM last month and memory use went up. Do the fans spin for you?",
        "Besprechung: vLLM läuft stabil, der Speicher der GPU reicht vorerst.",
        "We bought two H100. They are loud.",
        "Our blog compares Qwen3-8B and Qwen3-14B in writing poems.",
    )
    assert [] == [text for text in texts if questions_in(text)]


@pytest.mark.parametrize(
    ("text", "intent", "is_open"),
    [
        ("Does my model fit on an H100?", "fits", True),
        ("Mon modèle tient sur un L4 ?", "fits", True),
        ("The models that run on an L4?", "which_models", False),
        ("RTX 5090", "which_models", False),
        ("I have two RTX 3090", "which_models", False),
    ],
)
def test_a_gpu_alone_asks_for_models_and_ones_own_model_does_not(
    text: str, intent: str, is_open: bool
) -> None:
    """Where models are asked for, none is missing."""
    found = planner.read(text)

    assert (intent, is_open) == (found.intent, bool(found.open))


def test_requests_with_twenty_users_are_twenty() -> None:
    """Both words count the same: the one behind the number has it."""
    text = "Qwen3-32B on an H100 preempts requests with 20 users at 32k"
    found = planner.read(text)

    assert Load(prompt_tokens=24_576, output_tokens=8192, requests=20) == found.load


@pytest.mark.parametrize(
    "text",
    [
        "Does Qwen3-8B, 4 users at 16k, fit on an L4?",
        "Does Qwen3-8B 4 users at 16k fit on an L4?",
        "Does Qwen3 8B fit on an L4: 4 users at 16k",
    ],
)
def test_a_number_behind_a_name_is_no_part_of_it(text: str) -> None:
    """Four users are no four bits."""
    found = planner.read(text)

    assert ("Qwen/Qwen3-8B", 4) == (found.model, found.load and found.load.requests)
