"""What is read of the Hub's list: use, access, base model, format, groups."""

import pytest

from planner.models.sources.hub_models import (
    HubModel,
    base_of,
    facts,
    format_of,
    grouped,
    read,
)

NAME = "nobody/tiny"
SERVED = {"id": NAME, "tags": ["safetensors"], "library_name": "transformers"}


def test_a_row_is_read() -> None:
    """As the Hub writes it."""
    row = {
        **SERVED,
        "downloads": 12,
        "gated": "auto",
        "safetensors": {"parameters": {"BF16": 36}, "total": 36},
        "tags": ["base_model:a/b", "base_model:finetune:a/b", "safetensors"],
    }
    (model,) = read([row])

    assert model == HubModel(
        name=NAME,
        num_downloads=12,
        is_gated=True,
        base_model="a/b",
        relation="finetune",
        num_parameters=36,
    )
    assert model.group == NAME


@pytest.mark.parametrize(
    "row",
    [
        {"library_name": "mlx"},
        {"library_name": "peft"},
        {"library_name": "diffusers"},
        {"tags": ["gguf"]},
        {"tags": ["onnx"]},
        {"tags": ["mlx", "safetensors"]},
        {"tags": ["base_model:adapter:a/b", "safetensors"]},
        {"private": True},
        {"id": "<img src=x>"},
        {"id": "../tiny"},
        {"id": 3},
    ],
)
def test_what_vllm_does_not_load_is_left_out(row) -> None:
    """Formats of other engines, adapters, and what no repository is called."""
    assert read([SERVED | row]) == ()


@pytest.mark.parametrize(
    "row", [{"tags": ["onnx", "safetensors"]}, {"tags": []}, {"library_name": None}]
)
def test_what_has_its_weights_beside_other_formats_stays(row) -> None:
    """As does what the Hub says little of."""
    assert [model.name for model in read([SERVED | row])] == [NAME]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {"error": "x"},
        [None, 3, []],
        [{"id": NAME, "tags": 3, "downloads": "x", "safetensors": [1]}],
    ],
)
def test_an_answer_of_another_form_is_no_failure(rows) -> None:
    """It is untrusted."""
    assert all(model.num_downloads == 0 for model in read(rows))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((), ("", "")),
        (("base_model:a/b",), ("a/b", "")),
        (("base_model:quantized:a/b", "base_model:a/b"), ("a/b", "quantized")),
        (("base_model:merge:../x",), ("", "")),
    ],
)
def test_the_base_model_is_in_the_tags(tags, expected) -> None:
    """With the relation to it, where the page says one."""
    assert base_of(tags) == expected


@pytest.mark.parametrize(
    ("name", "tags", "expected"),
    [
        ("RedHatAI/Qwen3-8B-FP8-dynamic", (), "FP8"),
        ("RedHatAI/Qwen3-8B-quantized.w4a16", (), "W4A16"),
        ("Qwen/Qwen3-8B-AWQ", ("4-bit",), "AWQ"),
        ("nvidia/DeepSeek-R1-NVFP4-FP8", (), "NVFP4 FP8"),
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", (), "bitsandbytes 4-bit"),
        ("Intel/Qwen3-8B-int4-AutoRound", (), "INT4 AutoRound"),
        ("Intel/Qwen3-8B-auto-round", (), "AutoRound"),
        ("deepseek-ai/DeepSeek-R1", ("fp8",), "FP8"),
        ("awq-team/Qwen3-8B", (), ""),
        ("nobody/fp8ish", (), ""),
    ],
)
def test_the_format_is_in_the_name_or_the_tags(name, tags, expected) -> None:
    """The owner's name says nothing of it."""
    assert format_of(name, tags) == expected


def test_the_same_model_counts_once() -> None:
    """It may be found by its name and as a release of another."""
    release = HubModel(name="a/b-FP8", base_model="a/b", relation="quantized")
    (group,) = grouped([release, HubModel(name="a/b"), release])

    assert group.name == "a/b"
    assert group.releases == (release,)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (HubModel(name=NAME), ""),
        (HubModel(name=NAME, num_downloads=999), "999 downloads"),
        (HubModel(name=NAME, num_downloads=1_250_000), "1.2 M downloads"),
        (HubModel(name=NAME, num_parameters=8_030_261_248), "8.0 B"),
        (HubModel(name=NAME, num_parameters=9, quantization="AWQ"), "AWQ"),
        (
            HubModel(name=NAME, is_gated=True, num_downloads=56_000),
            "56 k downloads, gated",
        ),
    ],
)
def test_facts_are_short(model, expected) -> None:
    """Packed weights are counted in words, which are no parameters."""
    assert facts(model) == expected
