"""What the profile run encodes, keeps and needs for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release, number_of
from planner.engine.releases.change import Change
from planner.memory.media.encoder import (
    encoder_budget_tokens,
    encoder_kept_bytes,
    profiled_items,
)
from planner.memory.media.peak import encoder_peak_bytes, encoder_tables_bytes
from planner.memory.media.towers import key_splits, widths
from planner.memory.profile_run import ProfileRun
from planner.memory.runner import uses_v2_runner
from planner.memory.weights import stage_weights
from planner.models.architecture import MediaItem, Tower
from planner.models.families.towers import blocks
from planner.models.passes import Attention, Moment, TowerPass, Turns
from tests.configs import LLAMA_8B, architecture, gpu

IMAGE = MediaItem(modality="image", tokens=100, patches=400, inputs=4000, marks=10)
VIDEO = MediaItem(modality="video", tokens=50, patches=200, inputs=2000, most_parts=7)


def tower(*items: MediaItem, supports_data_parallel: bool = False) -> Tower:
    """A tower of width 8 whose MLP has a gate and 6 channels, and of two heads."""
    return Tower(
        modalities=("image", "video"),
        modules=(
            blocks.qkv("attn.qkv", 8, 2, bias=False),
            blocks.row("attn.proj", 8, 8, bias=False),
            *blocks.gated_mlp("mlp", 8, 6, bias=False),
        ),
        items=items,
        supports_data_parallel=supports_data_parallel,
    )


def run(
    *towers: Tower,
    version: str = "0.19.0",
    tokens: int = 1000,
    seqs: int = 64,
    length: int = 4000,
    ranks: int = 1,
    cut: int | None = None,
    limits: tuple[tuple[str, int], ...] = (),
    is_first_stage: bool = True,
    skip: bool = False,
    forces_v2: bool | None = None,
) -> ProfileRun:
    """Llama 3.1 8B's profile run, its hidden states 4,096 wide, beside towers."""
    release = Release(number_of(version))
    layout = ParallelLayout(release=release, tensor_parallel_size=ranks)
    of_towers = ParallelLayout(
        release=release, tensor_parallel_size=ranks if cut is None else cut
    )
    model = architecture(LLAMA_8B)
    return ProfileRun(
        model=model,
        gpu=gpu(),
        layout=layout,
        dtype="bfloat16",
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        max_model_len=length,
        is_first_stage=is_first_stage,
        is_last_stage=True,
        uses_v2_runner=uses_v2_runner(model, release, forced=forces_v2),
        towers=tuple((t, of_towers) for t in towers),
        mm_limits=limits,
        skip_mm_profiling=skip,
    )


def items_of(state: ProfileRun) -> tuple[str, int, int]:
    """Modality, items and tokens of each that are encoded."""
    batch = profiled_items(state)
    assert batch is not None
    return batch.modality, batch.items, batch.tokens_per_item


def test_a_model_of_text_has_no_encoder() -> None:
    """Nothing to count, nothing to encode."""
    assert 0 == encoder_budget_tokens(run())
    assert profiled_items(run()) is None
    assert 0 == encoder_kept_bytes(run()) == encoder_peak_bytes(run()).high_bytes


def test_budget_is_a_step_or_the_largest_item() -> None:
    """1,000 tokens of a step; a step of 64 cannot hold an image of 100."""
    assert 1000 == encoder_budget_tokens(run(tower(IMAGE)))
    assert 100 == encoder_budget_tokens(run(tower(IMAGE), tokens=64))


def test_as_many_items_as_the_budget_and_the_requests_have() -> None:
    """1,000 // 100 = 10 images; 4 requests of 2 images have 8; 1 at least."""
    assert ("image", 10, 100) == items_of(run(tower(IMAGE)))
    assert ("image", 8, 100) == items_of(
        run(tower(IMAGE), seqs=4, limits=(("image", 2),))
    )
    assert ("image", 1, 100) == items_of(run(tower(IMAGE), tokens=64))


def test_max_model_len_limits_the_items_of_a_request() -> None:
    """One request of 350 tokens has 350 // 100 = 3 images."""
    assert 3 == items_of(run(tower(IMAGE), seqs=1, length=350))[1]


def test_first_releases_round_items_up() -> None:
    """0.9.2: ceil(1,050 / 100) = 11; from 0.10.0: 10."""
    assert 11 == items_of(run(tower(IMAGE), tokens=1050, version="0.9.2"))[1]
    assert 10 == items_of(run(tower(IMAGE), tokens=1050, version="0.10.0"))[1]


def test_some_releases_count_the_text_between() -> None:
    """0.10.1 to 0.12.0: 100 + 10 marks, so that 1,000 // 110 = 9 images."""
    assert ("image", 9, 110) == items_of(run(tower(IMAGE), version="0.12.0"))
    assert ("image", 10, 100) == items_of(run(tower(IMAGE), version="0.13.0"))


def test_a_video_has_the_parts_that_fit_the_length() -> None:
    """320 // 50 = 6 parts; never more than 7; one where nothing fits."""
    assert ("video", 3, 300) == items_of(run(tower(VIDEO), length=320))
    assert ("video", 2, 350) == items_of(run(tower(VIDEO), length=4000))
    assert ("video", 20, 50) == items_of(run(tower(VIDEO), length=10))


def test_the_modality_with_most_tokens_is_encoded() -> None:
    """7 x 50 = 350 tokens of a video are more than an image's 100."""
    both = tower(IMAGE, VIDEO)
    assert "video" == items_of(run(both))[0]
    assert "image" == items_of(run(both, limits=(("video", 0),)))[0]


@pytest.mark.parametrize(
    ("version", "modality"), [("0.16", "image"), ("0.17", "video")]
)
def test_of_equals_the_first_and_later_a_video(version: str, modality: str) -> None:
    """An image of 50 tokens and a video of one part with as many."""
    image = MediaItem(modality="image", tokens=50, patches=200, inputs=2000)
    state = run(tower(image, VIDEO), length=60, version=version)
    assert modality == items_of(state)[0]


def test_outputs_and_inputs_stay_with_the_first_runner() -> None:
    """10 x (100 x 4,096 + 4,000) x 2 bytes."""
    assert 10 * (100 * 4096 + 4000) * 2 == encoder_kept_bytes(run(tower(IMAGE)))


def test_gemma_3_keeps_what_a_server_measured() -> None:
    """32 x (256 x 4,096 + 3 x 896 x 896) x 2 bytes, of T = 8,192 tokens."""
    image = MediaItem(modality="image", tokens=256, patches=4096, inputs=3 * 896 * 896)
    state = run(tower(image), tokens=8192, length=8192)
    assert 32 * (256 * 4096 + 3 * 896**2) * 2 == encoder_kept_bytes(state)


def test_outputs_took_the_whole_budget_for_a_while() -> None:
    """0.11.0: 10 x (1,000 x 4,096), 10 x 100 x 4,096 that a name keeps, the inputs."""
    image = MediaItem(modality="image", tokens=100, patches=400, inputs=4000)
    padded = 10 * (1000 * 4096 + 100 * 4096 + 4000) * 2
    assert padded == encoder_kept_bytes(run(tower(image), version="0.11.0"))
    assert padded > encoder_kept_bytes(run(tower(image), version="0.13.0"))


def test_the_second_runner_keeps_outputs_only_and_once_encoded_nothing() -> None:
    """0.33.0: 10 x 100 x 4,096 x 2 bytes on the first stage; 0.26.0: none."""
    assert 10 * 100 * 4096 * 2 == encoder_kept_bytes(run(tower(IMAGE), version="0.33"))
    later = run(tower(IMAGE), version="0.33", is_first_stage=False)
    assert 0 == encoder_kept_bytes(later)
    assert profiled_items(run(tower(IMAGE), version="0.26")) is None


def test_the_runner_may_be_asked_for() -> None:
    """The first one keeps inputs in 0.33.0 as well; the second none in 0.27.0."""
    outputs, inputs = 10 * 100 * 4096 * 2, 10 * 4000 * 2
    first = run(tower(IMAGE), version="0.33", forces_v2=False)
    assert outputs + inputs == encoder_kept_bytes(first)
    second = run(tower(IMAGE), version="0.27", forces_v2=True)
    assert outputs == encoder_kept_bytes(second)


def test_the_profile_run_may_leave_encoders_out() -> None:
    """skip_mm_profiling: the budget stays, nothing is encoded."""
    state = run(tower(IMAGE), skip=True)
    assert 1000 == encoder_budget_tokens(state)
    assert profiled_items(state) is None


def test_a_row_has_its_mlp_and_what_the_block_keeps() -> None:
    """Attention has more at once than the MLP: 48 > 34, 80 > 58 and 144 > 82.

    Attention: 4, 8 or 14 x 8 and 2, 2 or 4 x 8 beside. MLP: gate, up and product of 6
    and 2, 5 or 8 x 8 beside.
    """
    assert (48, 80, 144) == widths(tower(IMAGE), ParallelLayout())


def test_ranks_cut_what_a_row_has() -> None:
    """Of two ranks: attention 4 x 4 + 16 = 32, MLP 9 + 5 x 8 = 49, 14 x 4 + 32."""
    layout = ParallelLayout(tensor_parallel_size=2)
    assert (32, 49, 88) == widths(tower(IMAGE), layout)


def test_what_lies_behind_the_blocks_takes_rows_together() -> None:
    """Four rows of 8 as one, 64 wide: (64 + 64) / 4 + 5 x 8 = 72 < 80; pooled alike.

    Not pooled it would be 64 + 64 + 40 = 168.
    """
    inner = tower(IMAGE)

    def middle(name: str, size: int) -> int:
        behind = blocks.column(name, size, 64, bias=False)
        wider = replace(inner, modules=(*inner.modules, behind))
        return widths(wider, ParallelLayout())[1]

    assert [80, 80, 168] == [
        middle("merger.linear_fc1", 32),
        middle("projector.merged_linear", 8),
        middle("projector.linear_1", 8),
    ]


def test_a_projector_alone_works_on_what_comes_out() -> None:
    """Llama 4 has one of its own, of fewer rows than the tower before it."""
    projector = Tower(
        modalities=("image",), modules=(blocks.column("linear_1", 8, 64, bias=False),)
    )
    assert (0, 0, 0) == widths(projector, ParallelLayout())


def test_rotary_embeddings_in_fp32_take_more() -> None:
    """9, 15 or 18 x 8 and 2, 2 or 4 x 8 beside."""
    in_fp32 = replace(tower(IMAGE), rotates_in_fp32=True)
    assert (88, 136, 176) == widths(in_fp32, ParallelLayout())


def test_peak_is_all_rows_and_the_inputs() -> None:
    """4,000 rows of 48, 80 or 144 values + 40,000 inputs, 2 bytes each.

    At the high end the 1,000 outputs of 4,096 are there as well.
    """
    peak = encoder_peak_bytes(run(tower(IMAGE)))
    assert (4000 * 48 + 40000) * 2 == peak.low_bytes
    assert (4000 * 80 + 40000) * 2 == peak.size_bytes
    assert (4000 * 144 + 40000 + 1000 * 4096) * 2 == peak.high_bytes


def test_data_parallel_ranks_share_the_items() -> None:
    """10 images over 4 ranks: 3 on the first, of towers held in full."""
    shared = tower(IMAGE, supports_data_parallel=True)
    peak = encoder_peak_bytes(run(shared, ranks=4, cut=1))
    assert (3 * 400 * 80 + 40000) * 2 == peak.size_bytes


def test_pieces_are_encoded_one_after_the_other() -> None:
    """Ten images of 400 rows in 4 pieces: 100 rows at once."""
    image = MediaItem(modality="image", tokens=100, patches=400, inputs=0, pieces=4)
    assert 100 * 80 * 2 == encoder_peak_bytes(run(tower(image))).size_bytes


def test_unknown_items_are_never_nothing() -> None:
    """A step's 1,000 tokens of 4 patches stand for them, up to four times as much."""
    peak = encoder_peak_bytes(run(tower()))
    assert 0 == peak.low_bytes
    assert (4000 * 80 + 4000 * 1176) * 2 == peak.size_bytes
    assert 4 * peak.size_bytes == peak.high_bytes
    batch = profiled_items(run(tower()))
    assert batch is not None
    assert batch.is_assumed


@given(
    tokens=st.integers(1, 100_000),
    length=st.integers(1, 1_000_000),
    version=st.sampled_from(
        ["0.9.2", "0.10.0", "0.11.0", "0.14.0", "0.19.0", "0.33.0"]
    ),
)
def test_items_fit_the_budget(tokens: int, length: int, version: str) -> None:
    """All items but the last one of the first releases; the range is in order."""
    state = run(tower(IMAGE, VIDEO), tokens=tokens, length=length, version=version)
    _modality, count, per_item = items_of(state)
    assert (count - 1) * per_item < encoder_budget_tokens(state)
    peak = encoder_peak_bytes(state)
    assert 0 < peak.low_bytes <= peak.size_bytes <= peak.high_bytes


@pytest.mark.parametrize(
    ("version", "on_second"), [("0.32.0", True), ("0.33.0", False)]
)
def test_older_releases_build_towers_on_every_stage(
    version: str, *, on_second: bool
) -> None:
    """Its 3 x 8 x 8 + 8 x 8 + 3 x 6 x 8 = 400 elements of 2 bytes, on each or once."""
    layout = ParallelLayout(
        release=Release(number_of(version)), pipeline_parallel_size=2
    )
    model = architecture(LLAMA_8B)
    without = stage_weights(model, layout, "bfloat16")
    beside = stage_weights(model, layout, "bfloat16", (), ((tower(), layout),))
    added = [
        b.weights_bytes - w.weights_bytes for w, b in zip(without, beside, strict=True)
    ]
    assert [800, 800 if on_second else 0] == added


def counted(forward: TowerPass, *items: MediaItem, **facts: object) -> Tower:
    """The tower above, its pass counted."""
    return replace(tower(*items), forward=forward, **facts)


WIDEST = Moment(name="MLP", whole=10, cut=12, reduced=3)


def test_a_counted_pass_has_no_range() -> None:
    """4,000 rows of 10 + 12 values, and the inputs."""
    peak = encoder_peak_bytes(run(counted(TowerPass(moments=(WIDEST,)), IMAGE)))
    assert (4000 * 22 + 40000) * 2 == peak.size_bytes == peak.low_bytes
    assert "10 x image: 4,000 patches x 2 bytes x 22 values" in peak.why


def test_ranks_divide_a_part_and_hold_sums_beside_it() -> None:
    """Of two ranks: 10 + 12 / 2 + 3."""
    forward = TowerPass(moments=(WIDEST,))
    peak = encoder_peak_bytes(run(counted(forward, IMAGE), ranks=2))
    assert (4000 * 19 + 40000) * 2 == peak.size_bytes


def test_short_sequences_split_their_keys_on_hopper() -> None:
    """8 heads and 577 rows leave idle 132 multiprocessors: 4 parts; 729 have 2 of 16.

    4 blocks of 192 rows and 5 of 144 keys: 32, 64, 96 and 128 of 132 are busy.
    """
    short = Attention(num_heads=8, head_size=88, length=577)
    layout = ParallelLayout()
    assert 4 == key_splits(short, layout)
    assert 2 == key_splits(Attention(num_heads=16, head_size=72, length=729), layout)
    assert 1 == key_splits(Attention(num_heads=16, head_size=64, length=577), layout)
    assert 1 == key_splits(Attention(num_heads=16, head_size=72, length=4096), layout)
    assert 1 == key_splits(short, replace(layout, compute_capability=(8, 0)))


def test_parts_of_keys_have_outputs_of_their_own() -> None:
    """10 + 12 + 4 x 5 values in four parts."""
    split = replace(WIDEST, per_split=5)
    forward = TowerPass(
        moments=(split,), attention=Attention(num_heads=8, head_size=88, length=577)
    )
    peak = encoder_peak_bytes(run(counted(forward, IMAGE)))
    assert (4000 * 42 + 40000) * 2 == peak.size_bytes


def test_tables_of_a_size_stay_once() -> None:
    """400 rows of an image, however many images there are."""
    forward = TowerPass(moments=(WIDEST,), stays=6)
    state = run(counted(forward, IMAGE))
    assert 400 * 6 * 2 == encoder_tables_bytes(state)
    assert (4000 * 22 + 400 * 6 + 40000) * 2 == encoder_peak_bytes(state).size_bytes
    assert 0 == encoder_tables_bytes(run())


def test_a_share_of_the_inputs_is_copied() -> None:
    """3 of 10 images on the first of four ranks."""
    forward = TowerPass(moments=(WIDEST,), copies_share=True)
    shared = counted(forward, IMAGE, supports_data_parallel=True)
    peak = encoder_peak_bytes(run(shared, ranks=4, cut=1))
    assert (3 * 400 * 22 + 40000 + 3 * 4000) * 2 == peak.size_bytes


@pytest.mark.parametrize(("divides", "copied"), [(True, 40000), (False, 0)])
def test_one_rank_copies_all_inputs_where_ranks_divide_items(
    divides: bool, copied: int
) -> None:
    """mm_encoder_tp_mode="data" puts a rank's images together, be it all of them."""
    forward = TowerPass(moments=(WIDEST,), copies_share=True)
    alone = run(counted(forward, IMAGE, supports_data_parallel=True))
    peak = encoder_peak_bytes(replace(alone, divides_items=divides))
    assert (4000 * 22 + 40000 + copied) * 2 == peak.size_bytes


@pytest.mark.parametrize(
    ("version", "rows", "earlier"), [("0.20.0", 100, None), ("0.23.0", 1700, 1700)]
)
def test_turns_take_a_tenth_of_the_gpu(
    version: str, rows: int, earlier: int | None
) -> None:
    """Forty pieces of 100 rows: 17 in a turn, of two full ones the first is over.

    Each row attends to 100, a byte each; a turn copies its part of the inputs. Older
    releases take one piece at a time.
    """
    turns = Turns(
        bytes_per_row=gpu().total_memory_bytes // 10 // 1750,
        kept=8,
        copied=("image",),
        since=Change(since=(0, 22), what="Several pieces are encoded in a turn."),
    )
    pieces = replace(IMAGE, pieces=4)
    forward = TowerPass(moments=(WIDEST,), turns=turns)
    state = run(counted(forward, pieces), version=version, forces_v2=False)
    peak = encoder_peak_bytes(state)
    beside = 40000 * 2
    if earlier is not None:
        beside += rows * 100 + rows * 10 * 2 + earlier * 8 * 2
    assert rows * 22 * 2 + beside == peak.size_bytes


def test_callers_held_what_was_normalised_from_bytes_until_0_30() -> None:
    """Qwen2.5-VL's video: 65,536 patches of 1,176 pixels, in bytes and in bfloat16."""
    raw, both, inside = (
        plan(
            "Qwen/Qwen2.5-VL-7B-Instruct",
            gpu="H100",
            vllm_version=version,
            max_model_len=4096,
            enforce_eager=True,
        )
        .ranks[0]
        .line("peak activation")
        .size_bytes
        for version in ("0.27.1", "0.29.0", "0.30.0")
    )
    pixels = 65_536 * 1_176
    assert pixels == both - raw
    assert 2 * pixels == both - inside
