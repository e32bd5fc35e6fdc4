"""`planner calibration`, as it is typed."""

import json

import pytest

import planner
from planner.app import cli
from planner.confirming.calibration import store as keep
from planner.engine.releases import NEWEST
from planner.planning.calibrations import store
from planner.units import GIB
from tests import measured


@pytest.fixture
def record():
    """A stored start."""
    plan = measured.plan()
    return keep(plan, measured.start(plan)).record


def test_without_records_the_list_says_where_they_would_be(capsys, data_folder):
    """Exit status 1, as other lists that are empty."""
    assert cli.DOES_NOT_FIT == cli.main(["calibration", "list"])
    out = capsys.readouterr().out
    assert str(data_folder) in out
    assert "planner confirm" in out


def test_records_are_listed_newest_first(record, capsys):
    """Id, date, GPU, release and model in one line each; or JSON."""
    older = measured.plan(max_num_seqs=8)
    keep(older, measured.start(older, date="2025-01-01"))
    assert cli.FITS == cli.main(["calibration", "list"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{record.id}  2026-11-21  NVIDIA H100")
    assert first.endswith(f"vLLM {NEWEST}   {measured.LLAMA_8B}")
    assert "2025-01-01" in second
    assert cli.FITS == cli.main(["calibration", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [record.id] == [row["id"] for row in rows if row["date"] > "2026"]


def test_a_record_is_shown_by_how_its_id_begins(record, capsys):
    """Where, when, under which settings, and the figures."""
    assert cli.FITS == cli.main(["calibration", "show", record.id[:5]])
    out = capsys.readouterr().out
    assert "random weights" in out
    assert "  max_num_seqs = 1024" in out
    assert "[1, ..., 512] (51 entries)" in out
    assert "persistent buffers + non-torch" in out
    assert "3.00 GiB" in out
    assert cli.FITS == cli.main(["calibration", "show", record.id, "--json"])
    assert record.id == json.loads(capsys.readouterr().out)["id"]


def test_stages_are_shown_apart(capsys):
    """Each has its own figures."""
    plan = measured.plan(pipeline_parallel_size=2)
    workers = [measured.worker(plan, stage, stage) for stage in (0, 1)]
    record = keep(plan, measured.start(plan, *workers)).record
    cli.main(["calibration", "show", record.id])
    assert "Measured on pipeline stage 1:" in capsys.readouterr().out


def test_a_record_is_forgotten(record, capsys):
    """One by its id, or all of them; plans are then estimates again."""
    other = measured.plan(max_num_seqs=8)
    keep(other, measured.start(other))
    assert cli.FITS == cli.main(["calibration", "forget", record.id])
    assert "1 record forgotten.\n" == capsys.readouterr().out
    assert not measured.plan().ranks[0].line("non-torch").record
    assert cli.FITS == cli.main(["calibration", "forget", "--all"])
    assert () == store.everything().records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "zzzz"], "No stored measurement has the id 'zzzz'"),
        (["forget", "zzzz"], "No stored measurement has the id 'zzzz'"),
        (["import", "no/such/file"], "no/such/file cannot be read"),
        (["list", "stray"], "stray"),
    ],
)
def test_bad_input_ends_with_two(arguments, message, capsys):
    """One sentence on standard error."""
    assert cli.BAD_INPUT == cli.main(["calibration", *arguments])
    assert message in capsys.readouterr().err


def test_records_travel_as_one_file(record, capsys, tmp_path, monkeypatch):
    """Exported to a file or the screen, imported elsewhere."""
    file = tmp_path / "records.json"
    assert cli.FITS == cli.main(["calibration", "export", str(file)])
    capsys.readouterr()
    assert cli.FITS == cli.main(["calibration", "export"])
    assert file.read_text() == capsys.readouterr().out
    assert cli.BAD_INPUT == cli.main(["calibration", "export", str(file)])
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "elsewhere"))
    capsys.readouterr()
    assert cli.FITS == cli.main(["calibration", "import", str(file)])
    assert "1 added, 0 known already.\n" == capsys.readouterr().out
    assert record.id == measured.plan().ranks[0].line("non-torch").record


def test_a_plan_in_the_terminal_says_what_it_uses(record, capsys):
    """In its notes and its lines; as JSON too."""
    cli.main(["plan", measured.LLAMA_8B])
    out = capsys.readouterr().out
    assert f"planner calibration forget {record.id}" in out
    cli.main(["plan", measured.LLAMA_8B, "--json"])
    told = json.loads(capsys.readouterr().out)
    bases = {line["name"]: line["basis"] for line in told["ranks"][0]["lines"]}
    assert "measured" == bases["peak activation"]
    assert any(record.id in note for note in told["notes"])


def test_what_was_set_aside_is_said_on_standard_error(record, capsys, data_folder):
    """So that JSON on standard output stays whole."""
    folder = data_folder / "calibration" / "v1"
    (folder / "abc.json").write_text("broken")
    later = json.loads((folder / f"{record.id}.json").read_text()) | {"schema": 9}
    (folder / "later.json").write_text(json.dumps(later))
    assert cli.FITS == cli.main(["calibration", "list", "--json"])
    told = capsys.readouterr()
    assert 1 == len(json.loads(told.out))
    assert "set aside as abc.json.set-aside" in told.err
    assert "1 of a later version of the planner" in told.err


def test_the_list_says_when_plans_do_not_use_it(record, capsys, monkeypatch):
    """PLANNER_CALIBRATION=off hides nothing from the list."""
    monkeypatch.setenv("PLANNER_CALIBRATION", "off")
    cli.main(["calibration", "list"])
    told = capsys.readouterr()
    assert record.id in told.out
    assert "PLANNER_CALIBRATION is off" in told.err


@pytest.mark.parametrize("where", ["startup_plan", "."])
def test_what_vllm_wrote_down_is_the_next_starts_cache(where, capsys, tmp_path):
    """The least of the ranks; such a plan does not wonder what is written down."""
    folder = tmp_path / "startup_plan"
    folder.mkdir()
    for rank, size in enumerate((58 * GIB, 57 * GIB)):
        written = {
            "schema": 1,
            "fingerprint": f"{rank:016x}",
            "kv_cache_memory_bytes": size,
            "free_memory_baseline": 78 * GIB,
        }
        name = f"startup_plan_{rank:016x}.json"
        (folder / name).write_text(json.dumps(written), encoding="utf-8")
    assert cli.main(["calibration", "startup-plan", str(tmp_path / where)]) == cli.FITS
    out = capsys.readouterr().out
    assert "a KV cache of 58.00 GiB, if 78.00 GiB are free" in out
    assert f"--kv-cache-memory-bytes {57 * GIB} (the least of these)" in out
    env = {"VLLM_ENABLE_STARTUP_PLAN": "1"}
    plan = planner.plan("Qwen/Qwen3-8B", "H100", env=env)
    assert any("VLLM_ENABLE_STARTUP_PLAN" in text for text in plan.conditions)
    assert not plan.changed(kv_cache_memory_bytes=57 * GIB).conditions


@pytest.mark.parametrize(
    "held",
    [
        '{"schema": 2, "kv_cache_memory_bytes": 1, "free_memory_baseline": 1}',
        '{"schema": 1, "kv_cache_memory_bytes": 0, "free_memory_baseline": 1}',
        '{"schema": 1, "kv_cache_memory_bytes": 1.5, "free_memory_baseline": 1}',
        "[1]",
        "no JSON",
    ],
)
def test_a_startup_plan_that_vllm_would_not_apply_is_refused(held, capsys, tmp_path):
    """By the file's name; so is a folder without one."""
    path = tmp_path / "startup_plan_ab.json"
    assert cli.main(["calibration", "startup-plan", str(tmp_path)]) == cli.BAD_INPUT
    assert "VLLM_ENABLE_STARTUP_PLAN=1" in capsys.readouterr().err
    path.write_text(held, encoding="utf-8")
    assert cli.main(["calibration", "startup-plan", str(path)]) == cli.BAD_INPUT
    assert path.name in capsys.readouterr().err
