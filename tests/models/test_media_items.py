"""The largest images, videos and sounds of each family, with its published sizes."""

from typing import Any

import pytest

from planner.models.architecture import MediaItem
from planner.models.families import glm5next
from planner.models.families.facts import Facts
from planner.models.families.towers import items, sounds, tiles


def facts(model_type: str = "", **config: Any) -> Facts:
    """A config of these fields alone."""
    return Facts(config, model_type)


def tokens(found: tuple[MediaItem, ...]) -> dict[str, int]:
    """Tokens by modality, as the newest release has them."""
    return {item.modality: item.tokens for item in found if item.until is None}


MERGED_14 = facts(patch_size=14, spatial_merge_size=2)
MERGED_16 = facts(patch_size=16, spatial_merge_size=2)
GLM_5_3 = facts(patch_size=14, spatial_merge_size=2, temporal_patch_size=2)
TILE: dict[str, Any] = {"image_size": 448, "patch_size": 14}


def test_qwen2_vl() -> None:
    """12,845,056 / (28 x 28) = 16,384; 14 frames are 7 pairs of them."""
    found = items.qwen2_vl_items(MERGED_14)
    assert {"image": 16384, "video": 16384} == tokens(found)
    video = next(i for i in found if i.modality == "video" and i.until is None)
    assert (7, 65536, 65536 * 3 * 2 * 14 * 14) == (
        video.most_parts,
        video.patches,
        video.inputs,
    )


def test_qwen3_vl() -> None:
    """16,777,216 / (32 x 32) = 16,384; of a video 25,165,824 / 2 / 1,024 = 12,288."""
    found = items.qwen3_vl_items(MERGED_16)
    assert {"image": 16384, "video": 12288} == tokens(found)
    oldest = [i for i in found if i.until is not None and i.until.since == (0, 13)]
    # Two frames of 110 x 110 tokens where 2 x 90 x 90 have no room; 12.5 for each.
    assert [(151250, 12100), (153600, 12288)] == [
        (item.tokens, item.embeddings) for item in oldest
    ]
    assert [16199 in (i.for_lengths or ()) for i in oldest] == [True, False]
    assert [16200 in (i.for_lengths or ()) for i in oldest] == [False, True]


def test_documents() -> None:
    """11,289,600 / 784 = 14,400 and 2,822,400 / 784 = 3,600."""
    assert {"image": 14400} == tokens(items.dots_items(MERGED_14))
    assert {"image": 3600} == tokens(items.paddle_ocr_items(MERGED_14))


def test_glm4v() -> None:
    """78 x 78 = 6,084; 47,040,000 / 2 / 784 = 30,000 over 300 pairs of frames."""
    assert {"image": 6084, "video": 100} == tokens(items.glm4v_items(MERGED_14))


def test_muse_glimmer() -> None:
    """4,096; 48 pairs of frames of 144."""
    found = items.muse_glimmer_items(facts(patch_size=14))
    assert {"image": 4096, "video": 144} == tokens(found)
    assert [1, 48] == [item.most_parts for item in found]


def test_minimax_m3() -> None:
    """451,584 / 784 = 576; 250 pairs of frames of 602,112 / 784 = 768."""
    found = items.minimax_m3_items(facts(patch_size=14))
    assert {"image": 576, "video": 768} == tokens(found)
    assert [1, 250] == [item.most_parts for item in found]


def test_kimi_k25() -> None:
    """65 x 65 = 4,225 of 2 x 2 patches."""
    assert {"vision_chunk": 4225} == tokens(items.kimi_k25_items(facts(patch_size=14)))


def test_gemma() -> None:
    """Gemma 3: 256. Gemma 4: 280, and 32 frames of 70 + 8 = 2,496."""
    square = facts(image_size=896, patch_size=14)
    assert {"image": 256} == tokens(tiles.gemma3_items(square))
    found = items.gemma4_items(facts(patch_size=16), 280)
    assert {"image": 280, "video": 2496} == tokens(found)
    assert {2240} == {i.embeddings for i in found if i.modality == "video"}


def test_llama4() -> None:
    """17 tiles of 24 x 24 / 4 = 144 tokens."""
    vision = facts(image_size=336, patch_size=14, pixel_shuffle_ratio=0.5)
    assert {"image": 2448} == tokens(tiles.llama4_items(vision))


def test_internvl() -> None:
    """13 tiles of 32 x 32 / 4 = 256 tokens; a frame is one tile."""
    found = tiles.intern_vit_items(
        facts(downsample_ratio=0.5), facts(**TILE), most_tiles=12, has_videos=True
    )
    assert {"image": 3328, "video": 256} == tokens(found)


def test_idefics3() -> None:
    """17 tiles of (26 // 2) squared = 169 tokens."""
    vision = facts(image_size=364, patch_size=14)
    assert {"image": 2873} == tokens(tiles.idefics3_items(vision, 2))


def test_molmo() -> None:
    """12 crops in a row: 12 x 16 + 8 = 200 x 24 patches, by four, and 12 x 12."""
    assert {"image": 100 * 12 + 144} == tokens(tiles.molmo_items(336, 14))


def test_llava() -> None:
    """24 x 24 = 576; Pixtral in the same class 64 x 64 = 4,096."""
    chosen = facts(vision_feature_select_strategy="default")
    clip = facts("clip_vision_model", image_size=336, patch_size=14)
    assert {"image": 576} == tokens(tiles.llava_items(chosen, clip))
    pixtral = facts("pixtral", image_size=1024, patch_size=16)
    assert {"image": 4096} == tokens(tiles.llava_items(chosen, pixtral))


def test_llava_next() -> None:
    """672 x 672: 48 x 48 + 48 line ends + 576 of the whole = 2,928."""
    config = facts(
        vision_feature_select_strategy="default",
        image_grid_pinpoints=[[336, 672], [672, 336], [672, 672], [1008, 336]],
    )
    clip = facts("clip_vision_model", image_size=336, patch_size=14)
    assert {"image": 2928} == tokens(tiles.llava_next_items(config, clip))


def test_llava_onevision() -> None:
    """67 of 81 rows: 67 x 81 + 67 + 27 x 27 = 6,223; frames of 14 x 14 = 196."""
    vision = facts("siglip_vision_model", image_size=384, patch_size=14)
    expected = {"image": 67 * 81 + 67 + 729, "video": 196}
    assert expected == tokens(tiles.llava_onevision_items(vision))


def test_mistral3() -> None:
    """1,540 / 28 = 55; 55 x 55 = 3,025 tokens and a mark for each row."""
    vision = facts("pixtral", image_size=1540, patch_size=14)
    (image,) = tiles.mistral3_items(facts(spatial_merge_size=2), vision)
    assert (3025, 55, 110 * 110) == (image.tokens, image.marks, image.patches)


def test_sounds() -> None:
    """30 seconds: 1,500 positions; 3,000 steps / 4 = 750; 30 x 13 = 390."""
    audio = facts(max_source_positions=1500, num_mel_bins=128)
    assert {"audio": 1500} == tokens(sounds.whisper_items(audio))
    assert {"audio": 750} == tokens(sounds.qwen2_audio_items(audio))
    assert {"audio": 390} == tokens(sounds.qwen3_asr_items(audio))


@pytest.mark.parametrize(
    "found",
    [
        items.qwen2_vl_items(facts()),
        tiles.llama4_items(facts(image_size=336, patch_size=14)),
        tiles.llava_next_items(facts(), facts(image_size=336, patch_size=14)),
    ],
)
def test_what_weights_do_not_need_may_be_missing(found: tuple[MediaItem, ...]) -> None:
    """Nothing is known then, and the model is read all the same."""
    assert () == found


@pytest.mark.parametrize(
    ("length", "tokens"),
    [(4096, 8000), (16384, 16000), (24768, 24000), (32768, 31980), (65536, 37345)],
)
def test_glm_5_3_pads_odd_frames_beyond_its_budget(length: int, tokens: int) -> None:
    """Nine frames of 77 x 97 tokens are made to fit as eight, and padded to ten.

    Lengths below 16,000 tokens have room for one pair of frames, of 80 x 100.
    """
    found = glm5next.glm5_next_items(GLM_5_3)
    videos = [i for i in found if length in (i.for_lengths or ())]
    assert [tokens] == [item.embeddings for item in videos]
    assert [4 * tokens] == [item.patches for item in videos]
    assert 9 // 2 * 77 * 97 <= 30_000 < 5 * 77 * 97 == 37_345


def test_images_of_glm_5_3_are_eight_thousand_tokens() -> None:
    """Of four patches each, with two frames of 14 x 14 pixels in three colours."""
    image = glm5next.glm5_next_items(GLM_5_3)[0]
    assert (8000, 32_000, 32_000 * 2 * 3 * 14 * 14) == (
        image.tokens,
        image.patches,
        image.inputs,
    )
