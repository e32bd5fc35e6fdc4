"""What of a measured start leaves this machine, and what comes in from others."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.app import cli
from planner.confirming.calibration import record_of
from planner.confirming.calibration import store as keep
from planner.confirming.calibration_form import (
    FIGURES,
    TOLD,
    checked,
    known_gpus,
    known_models,
)
from planner.confirming.calibration_sharing import (
    NotShared,
    record_from,
    shared_of,
    text_of,
)
from planner.planning.calibrations import store
from planner.planning.calibrations.key import as_text
from planner.planning.calibrations.record import (
    CoveredLines,
    MeasuredRank,
    NotARecord,
)
from planner.units import GIB
from tests import measured
from tests.rows import each_row

SECRET = "s3cr3t"
WORDS = {
    *("vllm-memory-planner shared start", "serve", "llm", ""),
    *("weights", "persistent buffers", "peak activation", "non-torch"),
}
NAMES = {
    *(
        "kind schema vllm_version gpu driver_version model entrypoint month args"
    ).split(),
    *("is_dummy is_compile_cache_cold captured_graph_bytes ranks name").split(),
    *("total_memory_bytes pp_rank lines cudagraph_estimate_bytes figures").split(),
    *("covers", "size_bytes", *FIGURES, *TOLD),
}
private = st.sampled_from(
    [
        f"/home/{SECRET}/models",
        f"https://{SECRET}.example.com/v1",
        f"hf_{SECRET}",
        f"{SECRET}-corp/llama",
        f"10.0.0.7 {SECRET}",
        f"\x1b[31m{SECRET}",
    ]
)
scalar = st.none() | st.booleans() | st.integers() | st.floats() | private | st.text()
value = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(private | st.sampled_from(sorted(NAMES)), inner, max_size=3)
    ),
    max_leaves=6,
)


def record(**arguments):
    """Return the record of a start."""
    plan = measured.plan(**arguments)
    stages = range(len(plan.ranks))
    return record_of(
        plan, measured.start(plan, *(measured.worker(plan, n, n) for n in stages))
    )


RECORD = record()
SHARED = shared_of(RECORD)


def leaves(found):
    """Yield each name and each value of plain data."""
    if isinstance(found, dict):
        for name, inner in found.items():
            yield ("name", name)
            yield from leaves(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from leaves(inner)
    else:
        yield ("value", found)


def is_told(word: str) -> bool:
    """Whether a text is a word of the planner's own lists, a release or a month."""
    is_number = word.replace(".", "").replace("-", "").isdecimal()
    return word in {*WORDS, *known_models(), *known_gpus(), "fp8"} or is_number


def test_what_leaves_is_small_and_comes_back_as_the_same_record() -> None:
    """Release, GPU, model, arguments and figures: the key is made anew from them."""
    back = record_from(json.loads(text_of(SHARED)))

    assert len(text_of(SHARED)) < 2_000
    assert {"gpu_memory_utilization": 0.92} == SHARED["args"]
    assert (RECORD.id, RECORD.key, RECORD.ranks) == (back.id, back.key, back.ranks)
    assert "2026-11" == SHARED["month"]
    assert "2026-11-01" == back.date


@each_row(
    "given_args",
    [
        {"max_num_seqs": 8},
        {"kv_cache_dtype": "fp8", "tensor_parallel_size": 2},
        {"enforce_eager": True},
        {"pipeline_parallel_size": 2},
        {"enable_lora": True, "max_lora_rank": 64},
        {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H200", "enable_expert_parallel": True},
    ],
    ids=str,
)
def test_arguments_that_give_the_start_are_found(given_args) -> None:
    """Few, by planning: those that follow from others are not told."""
    one = record(**given_args)
    shared = shared_of(one)
    asked = {n: v for n, v in given_args.items() if n not in ("model", "gpu")}

    assert asked == {
        n: v for n, v in shared["args"].items() if n != "gpu_memory_utilization"
    }
    assert record_from(shared).id == one.id


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_nothing_but_allowed_keys_and_words_leaves(data) -> None:
    """Whatever a record holds: paths, names, addresses and tokens stay here."""
    own = json.loads(RECORD.key.settings)
    own |= data.draw(
        st.dictionaries(
            private | st.sampled_from(["env.HOME", "env.NCCL_X", "dtype", "max_loras"]),
            value,
            max_size=2,
        )
    )
    key = replace(
        RECORD.key,
        settings=as_text(own),
        vllm_version=data.draw(st.just(RECORD.key.vllm_version) | private),
    )
    rank = MeasuredRank(
        pp_rank=data.draw(st.integers(0, 2)),
        lines=(
            CoveredLines(
                covers=data.draw(st.just(("weights",)) | st.tuples(private)),
                size_bytes=data.draw(st.integers(0, 10 * GIB)),
            ),
        ),
        cudagraph_estimate_bytes=data.draw(st.none() | st.integers()),
        figures=data.draw(
            st.lists(
                st.tuples(private | st.sampled_from(sorted(FIGURES)), st.integers()),
                max_size=3,
            ).map(tuple)
        ),
    )
    one = replace(
        RECORD,
        key=key,
        gpu_name=data.draw(st.just("H100") | private),
        device_name=data.draw(private),
        date=data.draw(st.just("2026-11-21T12:00:00+00:00") | private),
        model_name=data.draw(st.just(measured.LLAMA_8B) | private),
        entrypoint=data.draw(st.just("serve") | private),
        driver_version=data.draw(st.just("580.95.05") | private),
        ranks=data.draw(st.just(RECORD.ranks) | st.just((rank,))),
    )
    try:
        found = shared_of(one)
    except NotShared:
        return
    assert SECRET not in text_of(found)
    assert [] == [
        one
        for kind, one in leaves(found)
        if (kind == "name" and one not in NAMES)
        or (kind == "value" and isinstance(one, str) and not is_told(one))
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_hostile_file_is_refused_by_name(data) -> None:
    """Any part of a shared start in another form: a sentence, or the same record."""
    changed = copy.deepcopy(SHARED)
    place = changed
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
            continue
        break
    place[key] = data.draw(value)
    if data.draw(st.booleans()) and isinstance(place, dict):
        place[data.draw(private)] = 1
    try:
        found = record_from(changed)
    except NotARecord:
        return
    assert checked(changed) is changed
    assert RECORD.key.architecture == found.key.architecture or "model" in changed


@each_row(
    "wrong",
    [
        ("kind", "other"),
        ("schema", True),
        ("vllm_version", "0.1.0"),
        ("model", "../../etc/passwd"),
        ("month", "2026-11-21"),
        ("args", {"download_dir": "x"}),
        ("args", {"max_num_seqs": True}),
        ("args", {"max_num_seqs": 10**30}),
        ("args", {"dtype": "s3cr3t"}),
        ("ranks", []),
        ("captured_graph_bytes", 10**15),
        ("gpu", {"name": "H100", "total_memory_bytes": 10 * GIB}),
    ],
    ids=str,
)
def test_each_field_has_its_form(wrong) -> None:
    """A value that is none is refused."""
    name, bad = wrong
    with pytest.raises(NotARecord):
        record_from({**SHARED, name: bad})


def test_a_model_of_ones_own_is_shared_as_one_of_its_shape() -> None:
    """Its name stays here; another shape is refused."""
    own = replace(RECORD, model_name="s3cr3t-corp/llama-tuned")
    with pytest.raises(NotShared, match="--as owner/name"):
        shared_of(own)
    assert shared_of(own, model=measured.LLAMA_8B) == SHARED
    with pytest.raises(NotShared, match="another shape"):
        shared_of(own, model="Qwen/Qwen3-8B")


def test_a_variable_that_matters_is_not_left_out_in_silence() -> None:
    """A start with another communicator's buffers is another start."""
    loud = record(env={"NCCL_BUFFSIZE": "1"})
    with pytest.raises(NotShared, match="NCCL_BUFFSIZE"):
        shared_of(loud)
    assert shared_of(record(env={"OMP_NUM_THREADS": "2"})) == SHARED


@pytest.fixture
def stored():
    """A stored start."""
    plan = measured.plan()
    return keep(plan, measured.start(plan)).record


def test_it_is_shown_before_it_is_written_and_asked_for(
    stored, tmp_path, capsys, monkeypatch
) -> None:
    """Where nobody can be asked, nothing is written without --yes."""
    path = tmp_path / "mine.json"
    monkeypatch.chdir(tmp_path)
    assert cli.BAD_INPUT == cli.main(["calibration", "share", stored.id, str(path)])
    told = capsys.readouterr()
    assert json.loads(told.out) == SHARED
    assert "Nothing was written" in told.err
    assert not path.exists()

    assert cli.FITS == cli.main(["calibration", "share", stored.id[:6], "--yes"])
    assert json.loads((tmp_path / f"share-{stored.id}.json").read_text()) == SHARED


def test_a_folder_is_added_and_what_is_none_of_it_named(
    tmp_path, capsys, stored
) -> None:
    """What this machine measured itself stays; a link is not followed."""
    folder = tmp_path / "shared"
    folder.mkdir()
    other = shared_of(record(max_num_seqs=8))
    (folder / "a.json").write_text(text_of(other))
    (folder / "b.json").write_text("[" * 100_000)
    (folder / "c.json").write_text(text_of(SHARED))
    (folder / "d.json").symlink_to(folder / "a.json")

    assert cli.DOES_NOT_FIT == cli.main(["calibration", "add", str(folder)])
    told = capsys.readouterr()
    assert "1 added, 1 known already, 1 refused." in told.out
    assert "b.json is not a shared start" in told.err
    dates = {one.id: one.date for one in store.everything().records}
    assert stored.date == dates[stored.id]
    assert 2 == len(dates)
    line = measured.plan(max_num_seqs=8).ranks[0].line("peak activation")
    assert measured.PEAK == line.size_bytes


def test_one_file_that_is_none_ends_with_two(tmp_path, capsys) -> None:
    """One sentence with the reason."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**SHARED, "host": "s3cr3t"}))
    assert cli.BAD_INPUT == cli.main(["calibration", "add", str(path)])
    assert "has other parts than a shared start" in capsys.readouterr().err
