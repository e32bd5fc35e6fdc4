"""Quantised checkpoints that nobody has named: estimated as usual ones."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError
from planner.export.links import link
from planner.export.reading_links import read_link
from planner.models import catalogue, estimates
from planner.models.sources.hub_errors import is_repo_id

SHARED = Path(__file__).parents[3] / "shared" / "configs"


def _weights(model, **arguments):
    """Return the weights on one rank, in bytes."""
    given = {"gpu": "H200", "max_model_len": 1024, **arguments}
    return planner.plan(model, **given).limiting_rank.weights_bytes


def test_awq_takes_four_bits_a_scale_and_a_zero_point_for_each_weight():
    """Qwen3-32B: 64 layers of 5120 x (10240 + 8192 + 3 x 25600) weights.

    A group of 128 weights has a scale of 2 bytes and a zero point of 4 bits, so a
    weight takes 1/2 + 2/128 + 1/256 bytes, where 16 bits take 2. (A100: Marlin. From
    Hopper on Machete keeps zero points in 16 bits.)
    """
    weights = 64 * 5120 * (10240 + 8192 + 3 * 25600)
    saved = weights * 2 - weights * (128 + 4 + 1) // 256
    plain, fewer = (
        _weights(name, gpu="A100-80GB")
        for name in ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B~AWQ")
    )
    assert plain - fewer == saved


@pytest.mark.parametrize(
    ("estimate", "published"),
    [
        ("Qwen/Qwen2-VL-2B-Instruct~AWQ", "Qwen/Qwen2-VL-2B-Instruct-AWQ"),
        ("Qwen/Qwen3-32B~AWQ", "Qwen/Qwen3-32B-AWQ"),
        ("Qwen/Qwen3-32B~NVFP4", "nvidia/Qwen3-32B-NVFP4"),
        ("Qwen/Qwen2.5-32B-Instruct~GPTQ-Int4", "Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4"),
    ],
)
def test_an_estimate_weighs_what_the_published_checkpoint_weighs(estimate, published):
    """To the byte, where its publisher leaves what is usually left."""
    assert _weights(estimate) == _weights(published)


@pytest.mark.parametrize(
    ("estimate", "published", "most"),
    [
        ("Qwen/Qwen3-32B~NVFP4", "nvidia--Qwen3-32B-NVFP4", 0.0),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct~NVFP4",
            "nvidia--Qwen3-Next-80B-A3B-Instruct-NVFP4",
            0.01,
        ),
        ("Qwen/Qwen3-235B-A22B~NVFP4", "nvidia--Qwen3-235B-A22B-NVFP4", 0.01),
        ("Qwen/Qwen3-14B~GPTQ-Int4", "synthetic--Qwen3-14B-GPTQ-Int4", 0.0),
        ("Qwen/Qwen3-14B~FP8", "synthetic--Qwen3-14B-FP8-dynamic", 0.0),
    ],
)
def test_estimates_are_near_checkpoints_that_leave_other_layers(
    estimate, published, most
):
    """Publishers choose what they leave; 1 % of the weights is the most it matters."""
    folder = SHARED / published
    if not folder.is_dir():
        pytest.skip(f"{published} is not beside this repository")
    gpus = {"tensor_parallel_size": 2}
    real = _weights(str(folder), **gpus)
    assert abs(_weights(estimate, **gpus) - real) <= most * real


def test_what_is_usually_left_stays_in_16_bits():
    """Encoder, embeddings and LM head of Qwen2.5-VL; the router of a mixture."""
    plain, fewer = (
        planner.plan(name).model
        for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct~AWQ")
    )
    assert fewer.towers[0].modules == plain.towers[0].modules
    assert fewer.first_stage == plain.first_stage
    assert fewer.last_stage == plain.last_stage
    assert fewer.layer_kinds != plain.layer_kinds
    mixture = planner.plan("Qwen/Qwen3-30B-A3B~GPTQ-Int4").model
    (kind,) = mixture.layer_kinds
    methods = {m.name: getattr(m, "method", None) for m in kind.modules}
    assert methods["mlp.gate"] is None
    assert methods["mlp.experts"] is not None


@given(
    model=st.from_regex(r"[A-Za-z0-9/@._~-]{1,40}", fullmatch=True),
    form=st.sampled_from(sorted(estimates.FORMATS)),
)
def test_a_name_is_split_into_what_it_was_made_of(model, form):
    """Whatever the model is called; and it is never a repository's."""
    assume(estimates.split_name(model) is None)
    name = estimates.name_of(model, form)
    found = estimates.split_name(name)
    assert found == (model, estimates.FORMATS[form])
    assert not is_repo_id(name)


@pytest.mark.parametrize(
    "name",
    [
        *("Qwen/Qwen3-32B", "~AWQ", "Qwen/Qwen3-32B~awq9", ""),
        *("m~AWQ~AWQ", "m" + 5000 * "~AWQ"),
    ],
)
def test_other_names_are_not_split(name):
    """A mark needs a model before it and a known format after it, each once."""
    assert estimates.split_name(name) is None
    assert catalogue.find(f"{name}~AWQ") is None or name == "Qwen/Qwen3-32B"


def test_a_model_in_a_folder_is_estimated_as_well(tmp_path):
    """Its name is the folder's, its bytes those of the bundled model."""
    config = catalogue.find("Qwen/Qwen3-8B").config
    (tmp_path / "config.json").write_text(json.dumps(dict(config)), "utf-8")
    assert _weights(f"{tmp_path}~AWQ") == _weights("Qwen/Qwen3-8B~AWQ")


def test_a_model_that_is_quantised_already_is_refused():
    """AWQ of FP8 is nothing that anybody publishes."""
    with pytest.raises(PlannerError, match="quantised already") as refused:
        planner.plan("Qwen/Qwen3-8B-FP8~AWQ")
    assert "Give the name of the model in 16 bits" in str(refused.value)


def test_a_plan_says_that_it_is_an_estimate_and_what_to_search_for():
    """In its notes, which every form of a plan shows."""
    plan = planner.plan("Qwen/Qwen3-32B~AWQ")
    (note,) = plan.notes
    assert "estimated as a usual AWQ checkpoint of Qwen/Qwen3-32B" in note
    assert "search the Hub for Qwen3-32B-AWQ" in note
    assert note in str(plan)


def test_links_carry_an_estimate_of_a_bundled_model():
    """The page opens it again without the Hub."""
    plan = planner.plan("Qwen/Qwen3-32B~AWQ", max_model_len=4096)
    assert read_link(link(plan)).inputs.plan() == plan
    assert catalogue.find("qwen/qwen3-32b~AWQ") is catalogue.find("Qwen/Qwen3-32B~AWQ")
