"""Which bodies of a new release the machine closes, and which come first."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.release.wheels import package
from tools.release import judging, page
from tools.release.differing import Difference, differences, paired
from tools.release.evidence import Evidence
from tools.release.judging import Judged
from tools.release.ranking import Cited, in_order
from tools.release.reach import mentions, reached
from tools.release.record import Record
from tools.release.statements import kept_anew
from tools.release.symbols import Citation
from tools.release.touched import touched

BODY = """
    def size(self, tokens, dtype):
        \"\"\"Say it.\"\"\"
        rows = tokens // 2
        if rows < 1:
            raise ValueError(f"too few: {tokens}")
        self.buffer = torch.empty(rows, 8, dtype=dtype)
        return rows
"""


def difference(tmp_path: Path, before: str, after: str) -> Difference:
    """Return the only difference of two modules."""
    old, new = (
        package(tmp_path / name, {"v1/a.py": dedent(text)})
        for name, text in (("old", before), ("new", after))
    )
    (found,) = paired(differences(old, new))
    return found


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"""Say it."""', "# Says it.", "comments, annotations or imports"),
        ("tokens, dtype", "tokens: int, dtype: str", "comments, annotations"),
        ("too few", "not enough", "only logging or messages"),
        ("rows = ", 'logger.info_once("x %s", tokens)\n        rows = ', "logging"),
        ("rows", "lines", "names of locals"),
        (
            "rows = ",
            "if current_platform.is_rocm():\n            tokens = 0\n        rows = ",
            "branches of a platform",
        ),
        (
            "return rows",
            "self.stats.seen += 1\n        return rows",
            "only what watches",
        ),
        (
            "return rows",
            "begin = time.perf_counter()\n        return rows",
            "only what watches",
        ),
    ],
)
def test_what_cannot_change_memory_is_closed_with_its_reason(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    """The weakest reason that explains the whole edit."""
    assert reason in difference(tmp_path, BODY, BODY.replace(old, new)).closed


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("tokens // 2", "tokens // 4", "size"),
        ("rows, 8, dtype", "rows, 16, dtype", "kept"),
        ("dtype=dtype", "dtype=torch.float32", "dtype"),
        ("rows < 1", "rows < 2", "refusal"),
        ("tokens, dtype", "tokens, dtype=None", "default"),
        ("ValueError", "MemoryError", "refusal"),
        (
            "rows = ",
            "if current_platform.is_cuda():\n            tokens = 0\n        rows = ",
            "size",
        ),
        # What looks harmless and decides something.
        ("rows < 1", "rows < 1 and self.stats.seen", "refusal"),
        ("return rows", "self.stats.kept = torch.empty(rows)\n        return rows", ""),
        ("return rows", "helper(rows)\n        return rows", ""),
        ("return rows", "rows = 0\n        return rows", ""),
    ],
)
def test_what_may_change_memory_stays_open(
    tmp_path: Path, old: str, new: str, kind: str
) -> None:
    """With what of memory it is about; what cannot be judged too."""
    found = difference(tmp_path, BODY, BODY.replace(old, new))
    assert found.closed == ""
    assert not kind or kind in found.kinds


def test_output_is_no_tpu(tmp_path: Path) -> None:
    """Other platforms are known by whole words of a path or a name."""
    found = difference(tmp_path, "def output(a): return a", "def output(a): return 1")
    assert found.closed == ""
    other = difference(tmp_path, "def is_tpu_size(a): 1", "def is_tpu_size(a): 2")
    assert "platform" in other.closed


def test_a_body_that_moved_is_compared_with_what_it_was(tmp_path: Path) -> None:
    """By its class and name; what moved unchanged is closed."""
    text = "def room(a):\n    return {}\n"
    old = package(tmp_path / "old", {"a.py": text.format("a * 2"), "b.py": ""})
    new = package(tmp_path / "new", {"a.py": "", "b.py": text.format("a * 3")})
    (found,) = paired(differences(old, new))
    assert ("b.py::room", "a.py::room", "changed") == (
        *(found.key, found.was),
        found.how,
    )
    assert found.closed == ""
    same = package(tmp_path / "same", {"a.py": "", "b.py": text.format("a * 2")})
    (moved,) = paired(differences(old, same))
    assert moved.closed


def test_a_start_reaches_what_it_mentions() -> None:
    """Functions by name, methods with their class, in strings too; not requests."""
    files = {
        "w.py::Worker.start": frozenset({"helper", "Backend"}),
        "a.py::helper": frozenset(),
        "a.py::Backend": frozenset({"Base"}),
        "a.py::Base": frozenset(),
        "a.py::Base.__init__": frozenset(),
        "a.py::Base.helper": frozenset(),
        "a.py::Other.helper": frozenset(),
        "a.py::Base.execute_model": frozenset(),
    }
    live = reached(files, ("w.py::Worker.start",))
    assert {*files} - live == {"a.py::Other.helper", "a.py::Base.execute_model"}


OLD = {
    "v1/worker/gpu_worker.py": """
        from vllm.v1.rows import rows_of

        class Worker:
            def init_device(self, tokens):
                return rows_of(tokens)

            def execute_model(self, tokens):
                return tokens
    """,
    "v1/rows.py": """
        LIMITS = ["small", "large"]
        MOST_MB = 64

        def rows_of(tokens):
            return tokens // 2

        def apart(tokens):
            return tokens
    """,
    "model_executor/models/registry.py": """
        _MODELS = {"Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM")}
    """,
    "model_executor/models/qwen3.py": "from vllm.model_executor.layers import linear",
    "model_executor/layers/linear.py": "",
    "model_executor/layers/rare.py": "",
    "model_executor/models/rare.py": "from vllm.model_executor.layers import rare",
}
EDITS = {
    "tokens // 2": "torch.zeros(tokens)",
    "64": "128",
    '"large"': '"huge"',
    "return tokens\n    ": "return tokens + 1\n    ",
}
CITED = [
    Citation(path="v1/rows.py", symbol="MOST_MB", rule="planner/memory/a.py::A"),
    Citation(path="v1/rows.py", symbol="MOST_MB", rule="planner/models/b.py::B"),
    Citation(path="gpu_worker.py", symbol="Worker.init_device", rule="planner/c.py"),
]


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """Return two small releases, judged."""
    old = {path: dedent(text) for path, text in OLD.items()}
    new = dict(old)
    for path, text in old.items():
        for before, after in EDITS.items():
            new[path] = new[path].replace(dedent(before), dedent(after))
        assert path in new, text
    new["v1/rows.py"] = new["v1/rows.py"].replace("return tokens\n", "return 3\n")
    new["models/fresh.py"] = "def fresh(tokens):\n    return torch.zeros(tokens)\n"
    return judging.judged(
        package(tmp_path / "a", old), package(tmp_path / "b", new), CITED
    )


def test_readings_come_by_what_rests_on_them(judged: Judged) -> None:
    """A constant that two rules cite before what cited code calls, then the rest."""
    assert ["v1/rows.py::MOST_MB", "v1/rows.py::rows_of"] == [
        one.key for one in judged.readings[:2]
    ]
    most, rows, *_rest = judged.readings
    assert ("named", "called") == (most.near, rows.near)
    assert 2 == len(most.rules)
    assert "value" in most.kinds
    assert most.weight > rows.weight > 0


def test_lists_of_names_and_new_files_are_no_readings(judged: Judged) -> None:
    """Of a list only what came and went; a new file's architecture is named."""
    (table,) = judged.tables
    assert (["huge"], ["large"]) == judging.came_and_went(table)
    closed = dict(judged.closed)
    assert "new file" in closed["models/fresh.py::fresh"]
    assert judged.bodies == len(judged.readings) + 1 + len(judged.closed)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("size", "supports_size", "choice"),
        ("size", "get_attn_backend_cls", "choice"),
        ("size", "dummy_run", "profiled"),
        (
            "rows = ",
            "if attn_metadata is None: a = torch.empty(3)\n        rows = ",
            "profiled",
        ),
    ],
)
def test_names_say_what_an_edit_is_about(
    tmp_path: Path, old: str, new: str, kind: str
) -> None:
    """What is supported, what serves, and what the profile run alone allocates."""
    text = BODY.replace(old, new)
    found = difference(tmp_path, BODY if "rows" in old else "", text)
    assert kind in found.kinds


def test_suspected_readings_take_turns_with_untried_ones() -> None:
    """A feature without a case is not behind every body that some case suspects."""
    made = [("a", 0.5), ("b", 0.4), ("c", None), ("d", 0.0)]
    found = in_order(made, lambda one: (0.0, one[0]), lambda one: one[1])
    assert ["a", "c", "b", "d"] == [name for name, _suspicion in found]


def test_tensors_that_objects_keep_from_now_on_are_listed(tmp_path: Path) -> None:
    """Not those that they kept already in another size."""
    more = "self.rows = torch.zeros(tokens)\n        return rows"
    found = difference(
        tmp_path, BODY, BODY.replace("return rows", more).replace("8", "9")
    )
    assert ["self.rows = torch.zeros(tokens)"] == list(kept_anew(*found.edit))


def test_a_constructor_is_called_with_its_class() -> None:
    """A name that many functions have says less than one of its own."""
    words = {
        "a.py::rule": frozenset({"Table", "create_rows"}),
        **{f"b.py::{one}.create_rows": frozenset() for one in "ABC"},
        "b.py::Table": frozenset(),
        "b.py::Table.__init__": frozenset(),
    }
    cited = Cited({"a.py::rule": ["planner/memory/a.py::A"]}, words)

    def near(name: str) -> str:
        return cited.near(Difference(file="b.py", name=name, old=[], new=[]))[0]

    assert ("called", "namesake") == (near("Table.__init__"), near("A.create_rows"))


def test_what_cases_suspect_is_read_wherever_it_is(tmp_path: Path) -> None:
    """First, before what is cited; what ran in cases that agree comes last."""
    old, new = (
        package(
            tmp_path / name, {**{path: dedent(t) for path, t in OLD.items()}, **came}
        )
        for name, came in (
            ("old", {}),
            ("new", {"v1/new.py": "def f():\n    g()\n"}),
        )
    )
    rows_py = new / "v1" / "rows.py"
    text = rows_py.read_text(encoding="utf-8").replace("tokens // 2", "tokens // 4")
    rows_py.write_text(text.replace("return tokens\n", "return 3\n"), encoding="utf-8")
    line = text.splitlines().index("    return tokens // 4") + 1
    ran = {"differs": {"v1/new.py": frozenset({2})}, "agrees": {}}
    said = Evidence(ran=ran, differ={"peak": frozenset({"differs"})})
    first, *_rest = judging.judged(old, new, CITED, said).readings
    assert ("v1/new.py::f", 1) == (first.key, first.suspicion)
    said = Evidence(ran={"agrees": {"v1/rows.py": frozenset({line})}})
    *_others, last = judging.judged(old, new, CITED, said).readings
    assert ("v1/rows.py::rows_of", 0) == (last.key, last.suspicion)


def test_a_file_serves_the_models_whose_classes_import_it(tmp_path: Path) -> None:
    """A worker serves all, a model's own module those of its classes."""
    found = touched(package(tmp_path, {path: dedent(t) for path, t in OLD.items()}))
    assert found["v1/worker/gpu_worker.py"] > found["model_executor/models/qwen3.py"]
    assert found["model_executor/models/qwen3.py"] > 0
    assert (
        found["model_executor/layers/linear.py"]
        == found["model_executor/models/qwen3.py"]
    )
    assert found["model_executor/models/rare.py"] == 0


def test_the_page_says_what_remains(judged: Judged) -> None:
    """Readings with minutes, names with what is missing, and stubs that compile."""
    names: dict[str, list[str]] = {kind: [] for kind in judging_kinds()}
    before, after = (
        Record(release=one, names=names, values={}, symbols={}, sentences=[])
        for one in ("0.98.0", "0.99.0")
    )
    found = page.Remaining(
        before=before,
        after=after,
        judged=judged,
        missing=[("NewForCausalLM", "a reader")],
        sentences=[("v1/a.py", "KV cache memory is short")],
        seconds={"bodies": 120.0},
    )
    text = page.page(found)
    assert text.startswith("# vLLM 0.99.0: what remains for a person\n")
    assert "after 2 minutes of the machine" in text
    assert "- `v1/rows.py::MOST_MB`: went `MOST_MB = 64`; came `MOST_MB = 128`" in text
    assert "- `NewForCausalLM`: a reader" in text
    assert "came `huge`; went `large`" in text
    assert "+ MOST_MB = 128" in page.edits(found)
    stubs = page.stubs(found)
    compile(stubs, "stubs", "exec")
    assert 'source="vLLM 0.99.0 `v1/rows.py` MOST_MB"' in stubs
    assert "since=(0, 99)" in stubs
    assert "# planner/memory/a.py\n" in stubs


def judging_kinds() -> tuple[str, ...]:
    """Return the kinds of names that a record has."""
    return ("architectures", "arguments", "variables")


def test_a_package_is_split_without_its_imports_and_comments(tmp_path: Path) -> None:
    """An import is no use, and a docstring's words are not names."""
    text = (
        '"""Calls helper()."""\nfrom a import (\n    other,\n)\n# third()\nfourth()\n'
    )
    found = mentions(package(tmp_path, {"a.py": text}))
    assert found["a.py::"] == {"fourth"}
