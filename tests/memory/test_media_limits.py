"""limit_mm_per_prompt: what vLLM cannot read, and what sizes leave."""

import pytest

import planner
from planner.engine.releases import Release, number_of
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items
from planner.memory.media.towers import built_towers
from planner.models.architecture import DummySizes, MediaItem
from planner.models.families.towers.sizing import Canvas, PatchGrid, Tiles

QWEN, GEMMA4 = "Qwen/Qwen2.5-VL-3B-Instruct", "google/gemma-4-E4B-it"


def plan(model=QWEN, **arguments):
    """A plan with 8,192 tokens on an H100."""
    return planner.plan(model, gpu="H100", max_model_len=8192, **arguments)


def batch(model=QWEN, **arguments):
    """What the profile run encodes."""
    return profiled_items(plan(model, **arguments).limiting_rank.profile_run)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"image": -1}, "limit_per_prompt.count\n  Input should be greater than or"),
        ({"image": {"width": 0}}, "limit_per_prompt.width\n  Input should be greater"),
        ({"image": {"num_frames": 3}}, "num_frames\n  Unexpected keyword argument"),
        ({"audio": {"width": 3}}, "limit_per_prompt.width\n  Unexpected keyword"),
        ({"vision_chunk": {"length": 3}}, "length\n  Unexpected keyword argument"),
        ({"image": "two"}, "limit_per_prompt.count\n  Input should be a valid integer"),
    ],
)
def test_what_vllm_cannot_read_it_refuses(limit, words):
    """In the words of its configuration class."""
    error = plan(limit_mm_per_prompt=limit).error
    assert error.kind == "refused"
    assert error.message.startswith("1 validation error for ModelConfig\n")
    assert words in error.message


@pytest.mark.parametrize("model", [QWEN, "google/gemma-3-4b-it", GEMMA4])
@pytest.mark.parametrize(
    "limit", ["x", "nan", 1.5, None, [1], {"count": {"a": 1}}, {"num_frames": "x"}]
)
def test_what_is_no_number_of_items_is_refused_with_any_model(model, limit):
    """Also where the largest image decides how many tokens a step has."""
    error = plan(model, limit_mm_per_prompt={"video": limit, "image": limit}).error
    assert error.kind == "refused"
    assert error.message.startswith("1 validation error for ModelConfig\n")


def test_limits_are_names_and_numbers():
    """Anything else never reaches vLLM."""
    with pytest.raises(PlannerError, match="limit_mm_per_prompt"):
        plan(limit_mm_per_prompt=3)


def test_modes_are_two():
    """As vLLM says."""
    message = plan(mm_encoder_tp_mode="expert").error.message
    assert "mm_encoder_tp_mode\n  Input should be 'weights' or 'data'" in message


def test_of_a_model_of_text_vllm_reads_none_of_it():
    """Whatever is written there, and of a modality that a model has not the same."""
    text = plan("Qwen/Qwen3-8B")
    asked = {"limit_mm_per_prompt": {"image": -1}, "mm_encoder_tp_mode": "expert"}
    assert text.changed(**asked).ranks == text.ranks
    assert plan(limit_mm_per_prompt={"audio": 1}).ranks == plan().ranks


def test_sizes_leave_the_budget_and_shrink_what_is_encoded():
    """Qwen counts 16,384 tokens; 512 x 300 pixels are 18 x 11 of 28 x 28: 198."""
    asked = {"image": {"count": 1, "width": 512, "height": 300}, "video": 0}
    found = batch(limit_mm_per_prompt=asked)
    assert (found.tokens_per_item, found.items, found.embeddings) == (16384, 1, 198)
    assert found.patches == 4 * 198
    whole = batch(limit_mm_per_prompt={"image": 1, "video": 0})
    assert whole.inputs // whole.patches == found.inputs // found.patches


def test_frames_of_gemma_4_are_counted():
    """8 frames of 78 tokens in place of 32; an image of 1,120 tokens is more."""
    limit = {"video": {"count": 1, "num_frames": 8}, "audio": 0}
    assert batch(GEMMA4, limit_mm_per_prompt=limit).tokens_per_item == 8 * 78
    larger = batch(
        GEMMA4,
        limit_mm_per_prompt=limit,
        mm_processor_kwargs={"max_soft_tokens": 1120},
    )
    assert (larger.modality, larger.tokens_per_item) == ("image", 1120)


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [(448, 448, 1), (448 * 3, 448, 4), (448 * 4, 448 * 3, 5), (100, 900, 6)],
)
def test_tiles_have_the_shape_of_the_image(width, height, tiles):
    """1; 3 and a copy. None is taller than 448, as the largest is 12 tiles in a row.

    So 1,344 becomes 448: four and a copy; 100 x 448 is nearest to 1 : 5.
    """
    image = MediaItem(modality="image", tokens=13 * 256, patches=13, inputs=13)
    sizing = Tiles(side=448, least=1, most=12, has_copy=True)
    found = sizing.shrunk(image, DummySizes(width=width, height=height))
    assert found.tokens == tiles * 256


def test_fewer_tiles():
    """max_dynamic_patch=4 is four and a copy; 1 is one without."""
    image = MediaItem(modality="image", tokens=13 * 256, patches=13, inputs=13)
    sizing = Tiles(side=448, least=1, most=12, has_copy=True)
    counts = [
        sizing.processed(image, {"max_dynamic_patch": most}).tokens // 256
        for most in (4, 1)
    ]
    assert counts == [5, 1]


def test_a_canvas_has_the_tiles_that_the_image_needs():
    """336 x 700 is not reduced on three tiles, the whole is the fourth."""
    image = MediaItem(modality="image", tokens=17 * 144, patches=17, inputs=17)
    sizing = Canvas(side=336, most=16)
    shapes = {(336, 700): 4, (336, 336): 1, (336, 337): 3}
    for (width, height), tiles in shapes.items():
        found = sizing.shrunk(image, DummySizes(width=width, height=height))
        assert found.tokens == tiles * 144
    assert sizing.processed(image, {"max_patches": 4}).tokens == 5 * 144


def test_a_grid_rounds_up():
    """1,000 x 300 pixels of 28 x 28: 36 x 11; a longest edge of 1,000: 36 x 36."""
    image = MediaItem(modality="image", tokens=55 * 55, patches=55 * 55 * 4, inputs=0)
    sizing = PatchGrid(side=1540, unit=28)
    small = sizing.shrunk(image, DummySizes(width=1000, height=300))
    assert (small.tokens, small.marks) == (36 * 11, 11)
    assert sizing.processed(image, {"longest_edge": 1000}).tokens == 36 * 36


def test_sizes_of_other_families_are_left_out_by_name():
    """And the numbers that older releases take are named."""
    with pytest.raises(UnknownArchitecture, match=r"limit_mm_per_prompt: .*width"):
        plan(
            "zai-org/GLM-4.1V-9B-Thinking",
            limit_mm_per_prompt={"image": {"width": 64}},
        )
    with pytest.raises(PlannerError, match=r"came with 0\.11\.1"):
        plan(limit_mm_per_prompt={"image": {"width": 64}}, vllm_version="0.10.2")


@pytest.mark.parametrize(
    ("model", "version", "is_built"),
    [
        (QWEN, "0.10.0", True),
        (QWEN, "0.10.2", False),
        ("google/gemma-3-4b-it", "0.14.0", True),
        ("google/gemma-3-4b-it", "0.15.0", False),
        ("moonshotai/Kimi-K2.5", "0.15.0", True),
        ("moonshotai/Kimi-K2.5", "0.16.0", False),
    ],
)
def test_older_releases_keep_towers_that_are_switched_off(model, version, is_built):
    """Where every limit is 0: by class and release."""
    off = dict.fromkeys(("image", "video", "vision_chunk"), 0)
    newest = planner.plan(model, gpu="H200", limit_mm_per_prompt=off)
    release = Release(number_of(version))
    towers = built_towers(newest.model, newest.settings, release)
    assert bool(towers) is is_built


def test_embeddings_need_room_in_the_budget_and_no_tower():
    """No weights, nothing to encode, and a budget all the same."""
    off = {"image": 0, "video": 0}
    run = plan(limit_mm_per_prompt=off, enable_mm_embeds=True).limiting_rank
    assert run.weights_bytes == plan(limit_mm_per_prompt=off).ranks[0].weights_bytes
    assert encoder_budget_tokens(run.profile_run) == 16384
    assert profiled_items(run.profile_run) is None
    without = plan(limit_mm_per_prompt=off).limiting_rank.profile_run
    assert encoder_budget_tokens(without) == 0


def test_a_step_must_have_room_for_what_is_not_split():
    """16,384 tokens in a step of 8,192; Gemma 4 never splits its 2,496."""
    refused = plan(disable_chunked_mm_input=True).error.message
    assert refused == (
        "Chunked MM input disabled but max_tokens_per_mm_item (16384) is larger than "
        "max_num_batched_tokens (8192). Please increase max_num_batched_tokens."
    )
    model = "google/gemma-4-26B-A4B-it"
    assert "(2496)" in plan(model, max_num_batched_tokens=2048).error.message
    fewer = {"video": {"count": 1, "num_frames": 8}}
    small = plan(model, max_num_batched_tokens=2048, limit_mm_per_prompt=fewer)
    assert small.error is None


def test_a_video_is_encoded_with_the_frames_that_fit_a_step() -> None:
    """GLM-4.1V: of at most 300 frames of 100 tokens, 8,192 // 100 = 81."""
    encoded = batch("zai-org/GLM-4.1V-9B-Thinking", limit_mm_per_prompt={"image": 0})
    assert (1, 81 * 100, 81 * 4 * 100) == (
        encoded.items,
        encoded.embeddings,
        encoded.patches,
    )
