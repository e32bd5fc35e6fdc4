"""mm_processor_kwargs: how many tokens the largest image becomes, as in vLLM."""

import pytest

import planner
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items
from planner.memory.media.pixels import most_tokens
from planner.models.architecture import Resizing

QWEN2_5, QWEN3 = "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"


def _run(model, length=32768, **pixels):
    plan = planner.plan(
        model, gpu="H200", max_model_len=length, mm_processor_kwargs=pixels
    )
    return plan.limiting_rank.profile_run


@pytest.mark.parametrize(
    ("pixels", "tokens"),
    [
        (1_003_520, 1280),  # 40 x 32 of 28 x 28 pixels
        (1_000_000, 1275),  # 51 x 25
        (165_424, 210),  # 211 is prime, and 1 x 211 too wide: 15 x 14
        (216_064, 275),
        (7_000_000, 8928),
    ],
)
def test_an_image_has_as_many_tokens_as_make_a_rectangle(pixels, tokens):
    """What vLLM 0.33.0's own Qwen2_5_VLProcessingInfo answers, of 28 x 28 pixels."""
    resizing = Resizing(token_pixels=28 * 28, least_pixels=0, most_pixels=pixels)
    assert most_tokens(resizing, pixels) == tokens


@pytest.mark.parametrize(
    ("length", "tokens"), [(2048, 1280), (8192, 7680), (32768, 8960)]
)
def test_a_video_of_qwen2_5_has_up_to_seven_pairs_of_such_frames(length, tokens):
    """1,280 tokens a pair: 1 in 2,048 tokens, 6 in 8,192, 7 in more."""
    batch = profiled_items(_run(QWEN2_5, length, max_pixels=1_003_520))
    assert batch.tokens_per_item == tokens


def test_frames_of_qwen3_share_the_pixels():
    """1,003,520 / 1,024 = 980 tokens of an image, 490 of a pair of frames."""
    batch = profiled_items(_run(QWEN3, max_pixels=1_003_520))
    assert (batch.modality, batch.tokens_per_item) == ("image", 980)
    assert batch.patches == batch.items * 980 * 4


def test_smaller_images_leave_more_for_the_kv_cache():
    """On 24 GB the trial with the largest image decides whether one request fits."""
    plan = planner.plan(QWEN2_5, gpu="RTX4090", max_model_len=32768)
    small = plan.changed(mm_processor_kwargs={"max_pixels": 1_003_520})
    assert not plan.fits
    assert small.fits
    changes = [set(item.changes) for item in planner.advise(plan).items if item.starts]
    assert {"mm_processor_kwargs"} in changes


def test_the_same_pixels_change_nothing():
    """12,845,056 is what the family's processor has."""
    assert encoder_budget_tokens(_run(QWEN2_5)) == encoder_budget_tokens(
        _run(QWEN2_5, max_pixels=12_845_056)
    )
    text = planner.plan(QWEN2_5, gpu="H100", language_model_only=True)
    assert text.changed(mm_processor_kwargs={"max_pixels": 100_000}).ranks == text.ranks


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (QWEN2_5, {"mm_processor_kwargs": {"num_crops": 2}}),
        (QWEN2_5, {"mm_processor_kwargs": {"max_dynamic_patch": 2}}),
        (QWEN3, {"mm_processor_kwargs": {"max_pixels": 50_176}}),
        (
            QWEN3,
            {
                "mm_processor_kwargs": {"max_pixels": 602_112},
                "vllm_version": "0.31.0",
            },
        ),
        ("google/gemma-3-27b-it", {"mm_processor_kwargs": {"max_pixels": 602_112}}),
        ("Qwen/Qwen2.5-Omni-7B-AWQ", {"mm_processor_kwargs": {"max_pixels": 602_112}}),
    ],
)
def test_what_is_not_checked_is_refused_by_name(model, arguments):
    """Other keys, images below the least, older releases, other models."""
    with pytest.raises(UnknownArchitecture, match="mm_processor_kwargs"):
        planner.plan(model, gpu="H200", **arguments)


@pytest.mark.parametrize("given", [{"max_pixels": 0}, {"min_pixels": True}, "large"])
def test_pixels_are_whole_numbers(given):
    """From 1, by name."""
    with pytest.raises(PlannerError, match="mm_processor_kwargs"):
        planner.plan(QWEN2_5, gpu="H200", mm_processor_kwargs=given)


@pytest.mark.parametrize("value", [{"a": [1]}, "x", [1], float("nan"), 10**30, -1])
@pytest.mark.parametrize("name", ["max_dynamic_patch", "max_pixels"])
def test_of_a_model_of_text_no_value_is_read(name, value):
    """vLLM ignores them there."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    assert plan.changed(mm_processor_kwargs={name: value}).ranks == plan.ranks
