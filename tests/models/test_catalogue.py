"""The bundled models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.gpu import GPU
from planner.errors import PlannerError, Refused
from planner.memory.account import Basis
from planner.models import catalogue
from planner.models.families.reading import read
from planner.models.files import ModelFiles, merged
from planner.models.module_names import with_names
from planner.units import GIB
from tools import configs
from tools.build_catalogue import build, is_bundled

DATA = Path(__file__).parents[2] / "planner" / "data" / "models.jsonl"


def _index() -> list[dict[str, Any]]:
    return list(filter(is_bundled, configs.index()))


def test_there_are_at_least_eight_hundred_models():
    """Each with a source, sorted by name without regard to case."""
    entries = catalogue.entries()
    names = [entry.name for entry in entries]
    assert len(entries) >= 800
    assert names == sorted(names, key=str.lower)
    assert all(entry.source for entry in entries)


def test_the_file_stays_small():
    """It travels with every installation and is read by every first plan."""
    assert DATA.stat().st_size < 1_000_000


def test_an_entry_says_how_large_and_how_certain():
    """As the list of models shows it."""
    by_name = {entry.name: entry for entry in catalogue.entries()}
    assert by_name["01-ai/Yi-34B"].num_parameters == 34_388_917_248
    assert by_name["01-ai/Yi-34B"].is_certain
    assert not by_name["codellama/CodeLlama-7b-hf"].is_certain


def test_an_entry_says_in_words_how_certain_it_is():
    """Published as it stands, of another's shape, or put together."""
    by_name = {entry.name: entry for entry in catalogue.entries()}
    assert by_name["Qwen/Qwen3-8B"].certainty == "published"
    llama = by_name["meta-llama/Llama-3.3-70B-Instruct"]
    assert llama.certainty == "same shape as meta-llama/Llama-3.1-70B-Instruct"
    assert by_name["Qwen/Qwen3-8B-AWQ"].certainty == "reconstructed"


@pytest.mark.parametrize(
    ("name", "basis"),
    [
        ("Qwen/Qwen3-8B", Basis.EXACT),
        ("meta-llama/Llama-3.3-70B-Instruct", Basis.FORMULA),
        ("google/gemma-3-12b-it", Basis.ASSUMED),
        ("Qwen/Qwen3-8B-AWQ", Basis.ASSUMED),
    ],
)
def test_only_a_published_config_makes_weights_exact(name: str, basis: Basis):
    """A reconstruction is an assumption, and the plan's notes say so."""
    plan = planner.plan(name, gpu="H200", tensor_parallel_size=2)
    line = next(line for line in plan.ranks[0].lines if line.name == "weights")
    assert line.basis == basis
    is_noted = any(note.startswith("The config of") for note in plan.notes)
    assert is_noted == (basis != Basis.EXACT)


def test_the_most_used_models_come_first():
    """Those of vLLM's recipes before others, each by downloads from the Hub."""
    found = catalogue.popular()
    assert sorted(found, key=lambda entry: entry.name) == sorted(
        catalogue.entries(), key=lambda entry: entry.name
    )
    in_recipes = [entry.is_in_recipes for entry in found]
    assert in_recipes == sorted(in_recipes, reverse=True)
    for group in (True, False):
        downloads = [e.num_downloads or 0 for e in found if e.is_in_recipes is group]
        assert downloads == sorted(downloads, reverse=True)
    first = [entry.name for entry in found[:30]]
    assert "meta-llama/Llama-3.3-70B-Instruct" in first
    assert "openai/gpt-oss-120b" in first


def test_a_copy_keeps_no_model_from_its_short_name():
    """Qwen3-8B is Qwen's, though unsloth has one of the same shape."""
    assert catalogue.find("unsloth/Qwen3-8B") is not None
    assert catalogue.find("Qwen3-8B") is catalogue.find("Qwen/Qwen3-8B")


def test_a_model_is_found_with_its_facts_and_their_source():
    """What a plan needs, and from where it is."""
    files = catalogue.find("Qwen/Qwen3-8B")
    assert files is not None
    assert files.config["num_hidden_layers"] == 36
    assert files.source.startswith("bundled catalogue: ai-dynamo/aiconfigurator")
    assert files.is_certain


def test_what_is_reconstructed_is_labelled():
    """A plan repeats it."""
    files = catalogue.find("codellama/CodeLlama-7b-hf")
    assert files is not None
    assert not files.is_certain


def test_a_copy_that_was_edited_for_a_compiler_is_mended():
    """512 tokens there, where the model was published for more: a plan says so."""
    plan = planner.plan("zai-org/glm-4-9b-chat", gpu="H100", trust_remote_code=True)
    assert plan.resolved is not None
    assert plan.resolved.max_model_len == 131_072
    assert any("which this copy changed" in note for note in plan.notes)


def test_no_copy_for_a_compiler_passes_for_published():
    """One that could not be mended would be labelled; encoders are published with 512.

    What is published in FP8 is planned so, although only defaults are known of it.
    """
    assert [e.name for e in catalogue.entries() if "for a compiler" in e.source] == []
    plan = planner.plan("mistralai/Ministral-3-8B-Instruct-2512", gpu="H100")
    assert plan.resolved is not None
    assert plan.resolved.quantization == "fp8"
    other = planner.plan("mistralai/Ministral-3-8B-Reasoning-2512", gpu="H100")
    assert other.resolved is not None
    assert other.resolved.quantization is None


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("mistralai/Mistral-7B-Instruct-v0.2", 32_768),
        ("Qwen/Qwen2.5-32B-Instruct", 32_768),
        ("01-ai/Yi-6B-Chat", 4_096),
        ("zai-org/chatglm2-6b", 32_768),
        ("zai-org/chatglm3-6b-32k", 32_768),
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", 1_048_576),
        ("OpenGVLab/InternVL2-2B", 2 * 32_768),  # dynamic scaling, twice as far
        ("openbmb/MiniCPM-V-2_6", 32_768),
    ],
)
def test_a_length_that_a_copy_changed_is_the_published_one(name: str, length: int):
    """Though the copy stays as it is for the answers recorded of it."""
    plan = planner.plan(name, gpu="H200", trust_remote_code=True)
    assert plan.resolved.max_model_len == length


@pytest.mark.parametrize("text", ["qwen/QWEN3-8b", "Qwen3-8B", "qwen3-8b"])
def test_case_and_organisation_may_be_left_to_the_catalogue(text: str):
    """The answer carries the true name and is the same object."""
    assert catalogue.find(text) is catalogue.find("Qwen/Qwen3-8B")


def test_a_name_that_two_organisations_use_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
):
    """Which of the two is for the user to say."""
    both = {"one/tiny": "{}", "two/Tiny": "{}"}
    monkeypatch.setattr(catalogue, "_lines", lambda: both)
    names = catalogue._names.__wrapped__()
    assert "tiny" not in names
    assert names["two/tiny"] == "two/Tiny"


@pytest.mark.parametrize("text", ["", "nobody/tiny", "Qwen/"])
def test_what_is_not_there_is_none(text: str):
    """No guess here: `nearest` guesses."""
    assert catalogue.find(text) is None


def test_search_ranks_and_limits():
    """Models that begin so come first, the shortest of them before its variants."""
    found = [entry.name for entry in catalogue.search("qwen3-8", limit=2)]
    assert found == ["Qwen/Qwen3-8B", "Qwen/Qwen3.8-27B"]


def test_search_for_nothing_is_the_whole_list():
    """Up to the limit."""
    assert catalogue.search("", limit=10_000) == catalogue.entries()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instuct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("lama-3.2-1b-instruct", "meta-llama/Llama-3.2-1B-Instruct"),
    ],
)
def test_nearest_knows_a_slip_of_the_finger(text: str, expected: str):
    """With or without the organisation."""
    assert catalogue.nearest(text)[0] == expected


def test_nearest_does_not_force_an_answer():
    """Nothing is like this."""
    assert catalogue.nearest("zzzzzz") == ()


def test_the_file_names_no_machine():
    """Sources are repositories and libraries: no absolute path, no address."""
    text = DATA.read_text()
    assert "://" not in text
    assert re.search(r"(?<![\w.})-])/\w+/", text) is None


def test_every_kept_config_is_bundled_and_no_synthetic_one():
    """By the name that the index gives; and models of the same shape."""
    own = {row["model"] for row in _index()}
    others = {row["model"] for row in configs.relatives()}
    assert not own & others
    expected = own | others
    assert {entry.name for entry in catalogue.entries()} == expected


def test_the_committed_file_is_what_the_tool_builds():
    """Run `python -m tools.build_catalogue` after a change."""
    assert DATA.read_text() == build()


def test_lists_of_modules_come_back_whole():
    """Patterns in the file, every name in the answer."""
    for row in _index():
        files = catalogue.find(row["model"])
        published = configs.files(row["dir"])
        mended = with_names(row.get("mended", {}).get("changes", {}))
        config = merged(published["config.json"], mended)
        assert files is not None
        expected = _unordered(config.get("quantization_config"))
        assert _unordered(files.config.get("quantization_config")) == expected
        expected = _unordered(published.get("hf_quant_config.json"))
        assert _unordered(files.hf_quant_config) == expected


def _unordered(value: Any) -> Any:
    """The order of a list of module names means nothing."""
    if isinstance(value, dict):
        return {key: _unordered(inner) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return value


def _answer(model: object, **settings: Any) -> Any:
    """What a plan says, without the name that the model was called by.

    Without the files' size too: the catalogue may know it, a folder with nothing but a
    config.json does not. Nor how certain the weights are, which a folder always is.
    """
    try:
        plan = planner.plan(model, gpu="H100", trust_remote_code=True, **settings)
        answer = plan.to_dict()
    except PlannerError as error:
        return type(error).__name__, str(error).replace(str(model), "it")
    for other in ("model", "command", "notes", "loading"):
        answer.pop(other, None)
    for line in (line for rank in answer["ranks"] for line in rank["lines"]):
        if line["name"] == "weights":
            line.pop("basis")
    return answer


@pytest.mark.parametrize(
    "settings", [{}, {"tensor_parallel_size": 4, "max_model_len": 2048}], ids=str
)
def test_what_the_catalogue_leaves_out_changes_no_answer(settings: dict[str, Any]):
    """Every model, planned from its published files and from the catalogue.

    Where a copy was mended, the catalogue answers for what was published; so it does
    for releases of sentence-transformers, whose modules.json no folder here has.
    """
    more = {"mended", "like", "modules"}
    rows = [row for row in _index() if not more.intersection(row)]
    published = {
        r["model"]: _answer(configs.folder(r["dir"]), **settings) for r in rows
    }
    bundled = {r["model"]: _answer(r["model"], **settings) for r in rows}
    assert bundled == published


LARGE = GPU(name="Large", total_memory_bytes=8192 * GIB, compute_capability=(9, 0))
_BITS = {
    8: r"fp8|w8a8|w8a16|int8|mxfp8",
    4: r"nvfp4|mxfp4|awq|gptq|w4a16|int4",
}
_MOST = {8: 0.9, 4: 0.8}
"""Of the 16-bit weights; embeddings and what is left out stay as they are."""


def _bits(name: str) -> int | None:
    """The bits that a checkpoint's name states."""
    model = name.rpartition("/")[2]
    found = [
        bits
        for bits, pattern in _BITS.items()
        if re.search(rf"(?<![a-z0-9])(?:{pattern})(?![a-z])", model, re.IGNORECASE)
    ]
    return min(found, default=None)


def _weights(files: ModelFiles) -> int | None:
    """Bytes of the weights on one large GPU; None for a model that is refused."""
    try:
        model = read(files, trust_remote_code=True)
        plan = planner.plan(
            model, gpu=LARGE, max_model_len=64, vllm_version="0.31.0", max_num_seqs=1
        )
    except (PlannerError, Refused):
        return None
    is_refused = plan.error is not None and plan.error.kind == "refused"
    return None if is_refused or not plan.ranks else plan.ranks[0].weights_bytes


def test_no_quantised_checkpoint_is_planned_unquantised():
    """What a trimmed side file leaves of it: 16-bit weights under a 4-bit name.

    Models known by a recording have no 16-bit shape to compare with.
    """
    wrong, checked = [], 0
    for entry in catalogue.entries():
        bits, files = _bits(entry.name), catalogue.find(entry.name)
        assert files is not None
        quantised = _weights(files) if bits else None
        if bits is None or quantised is None:
            continue
        plain = {
            key: value
            for key, value in files.config.items()
            if key not in ("quantization_config", "expert_dtype")
        }
        text = plain.get("text_config")
        if isinstance(text, dict):
            plain["text_config"] = {
                key: text[key] for key in text if key != "quantization_config"
            }
        whole = _weights(
            ModelFiles(name=entry.name, config=plain, source="its plain shape")
        )
        checked += whole is not None
        if whole is not None and quantised > _MOST[bits] * whole:
            wrong.append(entry.name)
    assert wrong == []
    assert checked >= 150


def test_a_side_file_that_was_trimmed_leaves_its_model_out():
    """Nothing says which modules their quantisation leaves out."""
    rows = [row for row in configs.index() if "trimmed" in row.get("left_out", "")]
    left_out = [row["model"] for row in rows]
    assert left_out == [
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4",
    ]
    assert all(catalogue.find(name) is None for name in left_out)


def test_a_trimmed_side_file_was_completed():
    """Nemotron 3 Super in NVFP4: a start with its MTP head logs 75 GiB.

    The head's 512 experts of two matrices, 2688 x 1024, take 5.25 GiB in 16 bits.
    """
    files = catalogue.find("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
    assert files is not None
    assert not files.is_certain
    weights = _weights(files)
    assert weights is not None
    assert (weights + 512 * 2 * 2688 * 1024 * 2) / GIB == pytest.approx(75, abs=0.6)


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("google/gemma-3-12b-it", "max_position_embeddings", 131_072),
        ("google/gemma-3-12b-it", "vocab_size", 262_208),
        (
            "Qwen/Qwen3-VL-8B-Instruct",
            "rope_scaling",
            {
                "mrope_interleaved": True,
                "mrope_section": [24, 20, 20],
                "rope_type": "default",
            },
        ),
    ],
)
def test_what_a_copy_left_out_is_mended(name: str, part: str, expected: object):
    """By the published file; the entry names where the mend is from."""
    files = catalogue.find(name)
    assert files is not None
    assert files.config["text_config"][part] == expected
    assert "; its " in files.source
    assert not files.is_certain


def test_llama_4_has_its_vision_tower():
    """34 layers of 1408; the copies of it have none."""
    for name in ("Scout-17B-16E-Instruct", "Maverick-17B-128E-Instruct-FP8"):
        files = catalogue.find(f"meta-llama/Llama-4-{name}")
        assert files is not None
        vision = files.config["vision_config"]
        assert (vision["num_hidden_layers"], vision["hidden_size"]) == (34, 1408)


def test_a_model_of_the_same_shape_has_as_many_parameters():
    """As far as both are counted: otherwise the shape is not the same."""
    counted = {entry.name: entry.num_parameters for entry in catalogue.entries()}
    for entry in catalogue.entries():
        own, other = entry.num_parameters, counted.get(entry.shape_of)
        if own and other:
            assert own == pytest.approx(other, rel=0.001), entry.name


def _pooler(files: ModelFiles) -> int:
    hidden_size: int = files.config["hidden_size"]
    return hidden_size**2 + hidden_size


def test_reconstructed_sizes_give_the_published_number_of_parameters():
    """Against the model whose other facts they have: two bytes for each more or less.

    Both lengths are the same, so that rotary tables cancel. vLLM leaves out BERT's
    pooling layer, a square of the hidden size and a bias, which publishers count.
    """
    counted = {entry.name: entry.num_parameters for entry in catalogue.entries()}
    checked = 0
    for row in configs.relatives():
        changes, other = dict(row.get("changes", {})), counted.get(row["like"])
        changes.pop("max_position_embeddings", None)
        is_checked = "hidden_size" in changes or "vocab_size" in changes
        if not is_checked or other is None or "quantization_config" in changes:
            continue
        base = catalogue.find(row["like"])
        assert base is not None
        sized = ModelFiles(
            name=row["model"], config=merged(base.config, changes), source="of sizes"
        )
        mine, others = _weights(sized), _weights(base)
        if mine is None or others is None:
            continue
        expected = row["parameters"] - other
        if base.config["model_type"] in ("bert", "xlm-roberta"):
            expected += _pooler(base) - _pooler(sized)
        off = abs((mine - others) / 2 - expected)
        # vLLM fills the vocabulary of the smallest up to a multiple of 64.
        assert off <= 5e-4 * row["parameters"] + 64 * 1024, row["model"]
        checked += 1
    assert checked >= 50


def test_nothing_is_left_out_for_want_of_a_reader():
    """What has a reader belongs into the catalogue, unless its copy lacks fields."""
    reasons = [row["left_out"] for row in configs.index() if "left_out" in row]
    assert reasons
    assert not [reason for reason in reasons if "no reader" in reason]


@pytest.mark.parametrize(
    "name",
    [
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        "BAAI/bge-multilingual-gemma2",
        "Qwen/Qwen3-Embedding-0.6B",
        "Qwen/Qwen3-Embedding-8B",
        "sentence-transformers/all-roberta-large-v1",
        "BAAI/bge-base-en-v1.5",
    ],
)
def test_a_release_of_sentence_transformers_is_an_embedding_model(name: str):
    """Its modules.json asks for pooling, whatever config.json calls it."""
    files = catalogue.find(name)
    assert files is not None
    assert files.asks_for_pooling
    made = planner.plan(name, gpu="L40S")
    assert made.model.is_pooling


def test_a_reranker_has_no_modules():
    """Published without modules.json, it is what its config.json says."""
    files = catalogue.find("BAAI/bge-reranker-v2-m3")
    assert files is not None
    assert not files.asks_for_pooling
