"""Files of stored measurements: whole or not at all, and nothing is ever lost."""

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import surroundings
from planner.confirming.calibration import record_of
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.planning.calibrations import reading, store
from planner.planning.calibrations import record as writing
from planner.planning.calibrations.record import to_dict
from tests import measured

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

WRITER = """
import json, sys
from pathlib import Path
from planner.planning.calibrations.record import from_dict
from planner.planning.calibrations.store import write
from dataclasses import replace
record = from_dict(json.loads(Path(sys.argv[1]).read_text()))
for number in range(400):
    write(replace(record, model_name=sys.argv[2] * 2000))
"""


def _record(**facts):
    plan = measured.plan(**facts)
    return record_of(plan, measured.start(plan))


@pytest.fixture
def records(data_folder):
    """The folder of records, with one in it."""
    store.write(_record())
    return data_folder / "calibration" / "v1"


def _files(path):
    return sorted(entry.name for entry in path.iterdir())


# Where it lies


def test_the_folder_is_that_of_the_operating_system(monkeypatch):
    """XDG on Linux, Library on macOS, LOCALAPPDATA on Windows."""
    monkeypatch.delenv("PLANNER_DATA_DIR")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert "/home/me/.local/share/vllm-memory-planner" == surroundings.data_folder()
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert "/data/vllm-memory-planner" == surroundings.data_folder()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert "/home/me/.local/share/vllm-memory-planner" == surroundings.data_folder()
    monkeypatch.setattr(sys, "platform", "darwin")
    expected = "/home/me/Library/Application Support/vllm-memory-planner"
    assert expected == surroundings.data_folder()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert "/local/vllm-memory-planner" == surroundings.data_folder()
    monkeypatch.setenv("PLANNER_DATA_DIR", "/mine")
    assert "/mine/calibration/v1" == store.records_folder()


def test_without_a_home_nothing_is_found_and_a_sentence_says_so(monkeypatch):
    """Some containers give their user none."""
    monkeypatch.setattr(store, "records_folder", lambda: None)
    assert ((), ()) == store.candidates(NEWEST, "LlamaForCausalLM")
    assert () == store.everything().records
    with pytest.raises(store.NotStored, match="PLANNER_DATA_DIR"):
        store.write(_record())


# Whole or not at all


def test_a_record_comes_back_as_it_was(records):
    """Every field, through its file."""
    assert (_record(),) == store.everything().records
    assert [f"{_record().id}.json"] == _files(records)


def test_no_other_user_of_the_machine_reads_them(records) -> None:
    """Folders of models stand in them, and a home is open to others on some systems."""
    assert records.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_file(records, monkeypatch, moment):
    """Before the new file is on disk, and before it takes the name."""
    before = (records / f"{_record().id}.json").read_text()

    def crash(*_arguments):
        raise KeyboardInterrupt

    owner = os if moment == "fsync" else Path
    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, crash)
        with pytest.raises(KeyboardInterrupt):
            store.write(replace(_record(), model_name="another"))
    assert before == (records / f"{_record().id}.json").read_text()
    assert [f"{_record().id}.json"] == _files(records)


def test_a_killed_writer_leaves_a_part_that_nobody_reads(records):
    """It is removed an hour later, and not before: it may still be written."""
    old, new = records / ".a.json.1.part", records / ".b.json.2.part"
    for part in (old, new):
        part.write_text('{"kind": "half')
    hour_ago = time.time() - 2 * 3600
    os.utime(old, (hour_ago, hour_ago))
    assert 1 == len(store.everything().records)
    store.write(_record())
    assert [new.name, f"{_record().id}.json"] == _files(records)


def test_writers_at_once_never_mix(records, data_folder):
    """Two processes write one record 400 times each; a reader always sees one."""
    source = data_folder / "source.json"
    source.write_text(json.dumps(to_dict(_record())))
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(source), letter])
        for letter in "ab"
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        found = store.everything()
        assert () == found.messages
        seen.update(record.model_name[:1] for record in found.records)
    assert [0, 0] == [writer.returncode for writer in writers]
    assert seen & {"a", "b"}
    (last,) = store.everything().records
    assert last.model_name in ("a" * 2000, "b" * 2000)
    assert [f"{last.id}.json"] == _files(records)


@pytest.mark.parametrize(
    ("number", "words", "remedy"),
    [
        (errno.ENOSPC, "no space left on device", "Make room"),
        (errno.EROFS, "read-only file system", "Allow the planner to write"),
    ],
)
def test_a_full_or_locked_disk_is_one_sentence(
    records, monkeypatch, number, words, remedy
):
    """Nothing that was stored is lost, and no half file stays."""

    def refuse(_descriptor):
        raise OSError(number, os.strerror(number))

    other = _record(max_num_seqs=8)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(store.NotStored) as caught:
            store.write(other)
    text = str(caught.value)
    assert words in text
    assert remedy in text
    assert str(records) in text
    assert "\n" not in text
    assert (_record(),) == store.everything().records
    assert [f"{_record().id}.json"] == _files(records)


def test_a_folder_that_cannot_be_made_is_one_sentence(data_folder):
    """A file has its name."""
    data_folder.write_text("in the way")
    with pytest.raises(store.NotStored, match="could not be stored"):
        store.write(_record())
    assert "in the way" == data_folder.read_text()
    assert () == store.everything().records


# What is none of ours

BROKEN = {
    "cut off": b'{"kind": "vllm-memory-planner calib',
    "empty": b"",
    "not text": b"\xff\xfe\x00\x01",
    "a list": b"[]",
    "foreign": b'{"name": "my-package", "version": "1.0.0"}',
    "nested too deep": b"[" * 100_000,
    "numbers as text": None,
    "another schema": None,
    "another id": None,
    "no ranks": None,
    "no date": None,
}
_CHANGES = {
    "numbers as text": {"ranks": [{"pp_rank": "0"}]},
    "another schema": {"schema": 0},
    "another id": {"entrypoint": "llm", "vllm_version": "0.1"},
    "no ranks": {"ranks": []},
    "no date": {"date": "yesterday"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_foreign_file_is_set_aside(records, name):
    """Its bytes stay as they are, the plan says so once, and does without it."""
    content = BROKEN[name]
    if content is None:
        content = json.dumps(to_dict(_record()) | _CHANGES[name]).encode()
    path = records / f"{_record().id}.json"
    path.unlink()  # a plan reads the folder again where it changed, not a file in it
    path.write_bytes(content)
    plan = measured.plan()
    said = [note for note in plan.notes if "set aside as" in note]
    assert 1 == len(said)
    assert str(path) in said[0]
    assert [path.name + ".set-aside"] == _files(records)
    assert content == (records / (path.name + ".set-aside")).read_bytes()
    assert not [note for note in measured.plan().notes if "set aside" in note]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def _places(value, path=()):
    """Every place in a nested value, the innermost first."""
    entries = value.items() if isinstance(value, dict) else ()
    entries = enumerate(value) if isinstance(value, list) else entries
    for name, inner in entries:
        yield from _places(inner, (*path, name))
        yield (*path, name)


@given(data=st.data())
def test_whatever_a_record_holds_a_plan_is_made(data):
    """One value of it is anything at all: used, or set aside, never fatal."""
    told = to_dict(_record())
    *parents, last = data.draw(st.sampled_from(list(_places(told))))
    place = told
    for name in parents:
        place = place[name]
    place[last] = data.draw(JSON)
    path = Path(store.records_folder()) / f"{_record().id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))
    plan = measured.plan()
    assert isinstance(str(plan).encode(), bytes)
    rank = plan.ranks[0]
    assert rank.requested_memory_bytes == sum(line.size_bytes for line in rank.lines)


@pytest.mark.parametrize("text", ["\x1b[31mred", "two\nlines", "\ud800"])
def test_what_a_terminal_would_obey_is_no_text(records, text):
    """Records travel, so a name in one is a stranger's."""
    told = to_dict(_record())
    told["ranks"][0]["lines"][1]["covers"] = [text]
    (records / f"{_record().id}.json").write_text(json.dumps(told))
    assert "covers is not a list of texts" in store.everything().messages[0]
    told = to_dict(_record()) | {"entrypoint": text}
    (records / f"{_record().id}.json").write_text(json.dumps(told))
    assert "entrypoint is not text" in store.everything().messages[0]


def test_what_was_set_aside_before_is_never_replaced(records):
    """The second gets a number."""
    path = records / "abc.json"
    for content in ("first", "second", "third"):
        path.write_text(content)
        store.everything()
    names = [name for name in _files(records) if "set-aside" in name]
    expected = {
        "abc.json.set-aside": "first",
        "abc.json.set-aside-2": "second",
        "abc.json.set-aside-3": "third",
    }
    assert expected == {name: (records / name).read_text() for name in names}


def test_a_file_system_without_second_names_sets_aside_as_well(records, monkeypatch):
    """Then it renames, after a look."""

    def refuse(_self, _target):
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    for content in ("first", "second"):
        (records / "abc.json").write_text(content)
        store.everything()
    assert "first" == (records / "abc.json.set-aside").read_text()
    assert "second" == (records / "abc.json.set-aside-2").read_text()


def test_a_good_file_that_came_meanwhile_is_not_set_aside(records):
    """Between reading and renaming another process may have stored a record."""
    path = records / "abc.json"
    path.write_text("broken")
    seen = path.stat()
    path.unlink()
    path.write_text("a new one, longer")
    os.utime(path, ns=(1, 1))
    assert writing.move_aside(path, seen) is None
    assert "a new one, longer" == path.read_text()


def test_a_file_of_a_later_version_is_left_alone(records):
    """Neither used nor renamed; a list says how many."""
    later = to_dict(_record()) | {"schema": 2, "ranks": "another shape"}
    path = records / "ffff.json"
    path.write_text(json.dumps(later))
    found = store.everything()
    assert (1, 1, ()) == (len(found.records), found.newer, found.messages)
    assert path.exists()


def test_other_files_are_no_concern(records):
    """What is not called *.json."""
    for name in ("README.txt", ".DS_Store", ".hidden.json", "x.json.set-aside"):
        (records / name).write_text("whatever")
    before = _files(records)
    assert () == store.everything().messages
    assert before == _files(records)


def test_a_folder_called_as_a_record_is_left_alone(records):
    """It cannot be read, and is not renamed."""
    (records / "abc.json").mkdir()
    (said,) = store.everything().messages
    assert "abc.json cannot be read" in said
    assert (records / "abc.json").is_dir()


def test_a_huge_file_is_not_read(records, monkeypatch):
    """A record has a few KiB."""
    monkeypatch.setattr(reading, "_MOST_BYTES", 100)
    (records / "abc.json").write_text("[" + "1," * 100 + "1]")
    assert "far too large" in store.everything().messages[0]


@pytest.mark.skipif(IS_ROOT, reason="root may read everything")
def test_what_may_not_be_read_is_said_and_left(records):
    """Of a file and of the folder."""
    path = records / f"{_record().id}.json"
    path.chmod(0)
    (said,) = store.everything().messages
    assert "ermission denied" in said
    records.chmod(0)
    try:
        assert "cannot be read" in store.everything().messages[0]
    finally:
        records.chmod(0o700)


def test_a_folder_that_may_not_be_read_is_never_fatal(records, monkeypatch):
    """The plan goes without, and says so once."""

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    said = [note for note in measured.plan().notes if "Permission denied" in note]
    assert 1 == len(said)
    assert str(records) in said[0]
    assert not [note for note in measured.plan().notes if "Permission" in note]


def test_a_broken_file_that_cannot_be_renamed_is_never_fatal(records, monkeypatch):
    """On a file system that only reads."""
    path = records / "abc.json"
    path.write_text("broken")

    def refuse(*_arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(Path, "rename", refuse)
    assert "left as it is (Read-only file system)" in store.everything().messages[0]
    assert path.exists()


# Found again without reading everything


def test_a_folder_is_read_again_only_when_it_changed(records, monkeypatch):
    """A slider's plans cost a look at the folder's time."""
    long_ago = time.time_ns() - 10**10
    os.utime(records, ns=(long_ago, long_ago))
    reads = []
    read = store.read_folder
    monkeypatch.setattr(
        store, "read_folder", lambda path: reads.append(path) or read(path)
    )
    for _ in range(3):
        assert 1 == len(store.candidates(NEWEST, "LlamaForCausalLM")[0])
    assert 1 == len(reads)
    store.write(_record(max_num_seqs=8))
    assert 2 == len(store.candidates(NEWEST, "LlamaForCausalLM")[0])
    assert 2 == len(reads)


def test_without_a_folder_nothing_is_read(monkeypatch):
    """The usual case."""
    monkeypatch.setattr(store, "read_folder", lambda path: pytest.fail(path))
    assert planner.plan(measured.LLAMA_8B).fits


# Named, forgotten, taken along


@pytest.mark.usefixtures("records")
def test_an_id_may_be_shortened_while_it_is_clear():
    """As git does."""
    record = _record()
    assert record == store.named(record.id[:4])
    with pytest.raises(PlannerError, match="calibration list"):
        store.named("zzzz")
    with pytest.raises(PlannerError, match="calibration list"):
        store.named("")


@pytest.mark.usefixtures("records")
def test_a_beginning_of_two_ids_is_refused(monkeypatch):
    """Both are named."""
    record = _record()
    twice = reading.FolderRecords(records=(record, record))
    monkeypatch.setattr(store, "everything", lambda: twice)
    with pytest.raises(PlannerError, match="begins more than one id"):
        store.named(record.id[:4])


@pytest.mark.usefixtures("records")
def test_what_is_forgotten_is_gone():
    """Once; a second time there is nothing left to remove."""
    record = _record()
    assert 1 == store.forget([record])
    assert 0 == store.forget([record])
    assert () == store.everything().records


@pytest.mark.usefixtures("records")
def test_what_cannot_be_removed_is_said(monkeypatch):
    """With the file's name."""

    def refuse(_self):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PlannerError, match=r"\.json cannot be removed"):
        store.forget([_record()])


@pytest.mark.usefixtures("records")
def test_an_export_is_read_again_elsewhere(tmp_path, monkeypatch):
    """All of it; of two with one id the later stays."""
    store.write(_record(max_num_seqs=8))
    file = tmp_path / "mine.json"
    store.export_to(file)
    with pytest.raises(PlannerError, match="already exists"):
        store.export_to(file)
    kept = store.everything().records
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "elsewhere"))
    assert (2, 0) == store.add_exported(file)
    assert kept == store.everything().records
    newer = replace(kept[0], date="2027-01-01")
    store.write(newer)
    assert (0, 2) == store.add_exported(file)
    assert newer in store.everything().records


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"kind": "other"}', '{"kind": "vllm-memory-planner calibrations"}'],
)
def test_a_file_that_is_no_export_adds_nothing(tmp_path, content):
    """One sentence, and the file stays as it is."""
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(PlannerError, match="is not an export of measurements"):
        store.add_exported(file)
    assert content == file.read_text()
    with pytest.raises(PlannerError, match="cannot be read"):
        store.add_exported(tmp_path / "nowhere.json")
    with pytest.raises(PlannerError, match="cannot be written"):
        store.export_to(file / "below" / "a" / "file.json")


def test_an_export_of_an_impossible_name_is_a_sentence():
    """A name may have 255 bytes."""
    with pytest.raises(PlannerError, match="cannot be written: file name too long"):
        store.export_to(Path("x" * 300))
