"""Data files follow a new release, from its wheel alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from planner.engine.releases import MODELLED
from tests.release.wheels import NEW, OLD, package
from tools import lora_classes, server_flags
from tools.release import data, rehearsal, sources
from tools.release.data import Names
from tools.release.following import FOLLOWING

RELEASE = "0.99.0"
HISTORY = "planner/data/release_history.json"
VARIABLES = "planner/data/variables.json"
REGISTRY = "planner/data/vllm_architectures.txt"
ARGUMENTS = "planner/data/arguments.json"
BY_RELEASE = (
    *(HISTORY, VARIABLES, ARGUMENTS, "planner/data/model_type_history.json"),
    *("planner/data/lora_classes.json", "planner/data/server_flags.json"),
)
"""Where entries name the release that they came or went with."""


@pytest.fixture
def wheel(tmp_path: Path, root: Path) -> data.Wheel:
    """Return the newer of two made-up releases, beside this repository."""
    old, new = package(tmp_path / "old", OLD), package(tmp_path / "new", NEW)
    return data.Wheel(
        release=RELEASE,
        python="python",
        packages=new.parent,
        names=sources.names(new),
        before=sources.names(old),
        root=root,
    )


def test_what_came_is_entered_with_its_release(wheel: data.Wheel) -> None:
    """What an older release had already keeps its own, or none."""
    before = {
        "architectures": {"OldForCausalLM": "0.11.0"},
        "arguments": {},
        "kv_cache_dtypes": {"auto": "0.10.0"},
    }
    assert {
        "architectures": {"NewForCausalLM": RELEASE, "OldForCausalLM": "0.11.0"},
        "arguments": {"new_argument": RELEASE},
        "kv_cache_dtypes": {"auto": "0.10.0", "nvfp4": RELEASE},
    } == json.loads(data.history(wheel, json.dumps(before)))


def test_variables_come_and_go(wheel: data.Wheel) -> None:
    """One that went once and is here again has no end any more."""
    before = {"VLLM_GONE": ["0.11.0", ""], "VLLM_KEPT": ["", "0.12.0"]}
    assert {
        "VLLM_GONE": ["0.11.0", RELEASE],
        "VLLM_KEPT": ["", ""],
        "VLLM_NEW": [RELEASE, ""],
    } == json.loads(data.variables(wheel, json.dumps(before)))


def test_architectures_are_listed_in_the_registry_s_order(wheel: data.Wheel) -> None:
    """After a line that says where they are from."""
    head, *names = data.architectures(wheel, "").splitlines()
    assert f"vLLM {RELEASE}" in head
    assert ["LlamaForCausalLM", "NewForCausalLM"] == names


def test_a_release_is_put_first_and_is_the_newest(wheel: data.Wheel) -> None:
    """Once; running it again changes nothing."""
    path = wheel.root / "planner" / "engine" / "releases" / "__init__.py"
    before = path.read_text(encoding="utf-8")
    after = data.releases(wheel, before)
    names: dict[str, object] = {}
    start, end = after.index("MODELLED = ("), after.index("NEWEST, OLDEST = ")
    exec(after[start : after.index("\n", end)], names)
    assert RELEASE == names["NEWEST"]
    assert after == data.releases(wheel, after)


def test_adapters_get_a_step_where_a_class_changed(wheel: data.Wheel) -> None:
    """LlamaForCausalLM lets adapters change its embeddings from the new one on."""
    step = {"since": "0.10.0", "supports_lora": True, "packed": {"qkv_proj": 3}}
    before = lora_classes.written({"LlamaForCausalLM": [step]})
    after = json.loads(data.adapters(wheel, before))["classes"]
    assert {
        "LlamaForCausalLM": [
            step,
            {**step, "since": RELEASE, "embeddings": ["embed_tokens"]},
        ]
    } == after


def test_the_server_s_flags_come_and_go() -> None:
    """A text that was written by hand stays."""
    table = {
        "flags": {
            "api_key": {"kind": "many", "text": "Keys."},
            "old": {"kind": "one", "since": "0.12.0"},
        },
        "spellings": {"-k": "api_key"},
    }
    flag = {"flags": ["--new", "-n"], "kind": "switch", "of_engine": False}
    kept = {"flags": ["--api-key"], "kind": "many", "of_engine": False}
    after = server_flags.added(table, {"new": flag, "api_key": kept}, RELEASE)
    assert {
        "api_key": {"kind": "many", "text": "Keys."},
        "new": {"kind": "switch", "short": "-n", "since": RELEASE},
        "old": {"kind": "one", "since": "0.12.0", "gone": RELEASE},
    } == after["flags"]
    assert {"-k": "api_key", "-n": "new"}.items() <= after["spellings"].items()


def test_a_constant_that_another_module_holds_is_read(tmp_path: Path) -> None:
    """As vLLM 0.33.0's Step5 names its table of packed layers."""
    files = {
        "model_executor/models/registry.py": (
            '_TEXT = {"ExampleForCausalLM": ("example", "ExampleForCausalLM")}\n'
        ),
        "model_executor/models/interfaces.py": "class SupportsLoRA: pass\n",
        "model_executor/models/tables.py": 'PACKED = {"qkv": ["q", "k"]}\n',
        "model_executor/models/example.py": (
            "from .interfaces import SupportsLoRA\n"
            "from .tables import PACKED\n"
            "class ExampleForCausalLM(SupportsLoRA):\n"
            '    packed_modules_mapping = PACKED | {"up": PACKED["qkv"]}\n'
        ),
    }
    found = lora_classes.Sources(package(tmp_path, files).parent)
    ((_name, of),) = found.registered({"ExampleForCausalLM"}).items()
    assert {"qkv": 2, "up": 2} == lora_classes.facts(found, of)["packed"]


def test_every_writer_makes_a_file_that_is_here(wheel: data.Wheel) -> None:
    """All but the parser of the new release."""
    parser, *others = data.writers(wheel)
    assert f"tests/data/parsers/{RELEASE}.json" == parser
    assert all((wheel.root / path).is_file() for path in others)


@pytest.fixture
def clone(tmp_path: Path, root: Path) -> Path:
    """Return a copy of what a release changes, as a repository of its own."""
    copy = tmp_path / "clone"
    for path in ("planner/data", "tests/data/parsers", "tools/release/recorded"):
        shutil.copytree(root / path, copy / path)
    for path in ("planner/engine/releases/__init__.py", *FOLLOWING):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, copy / path)
    return copy


def test_a_release_that_is_taken_out_comes_back_byte_for_byte(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rehearsal begins without it, and ends with the files that are committed."""
    newest, before = MODELLED[:2]
    # What the release's own Python is asked for needs an installation.
    monkeypatch.setattr(data, "asked", lambda *_words: "")
    recorded = clone / "tools/release/recorded" / f"{newest}.json"
    names = json.loads(recorded.read_text(encoding="utf-8"))["names"]
    firsts = json.loads(contents(clone)[HISTORY])
    variables = json.loads(contents(clone)[VARIABLES])
    old = {
        kind: [one for one in listed if firsts.get(kind, {}).get(one) != newest]
        for kind, listed in names.items()
    }
    known = [name for name, (first, _last) in variables.items() if first != newest]
    old["variables"] = [name for name in known if variables[name][1] in ("", newest)]
    committed = contents(clone)

    changed = rehearsal.undone(wheel_of(clone, before, old, old), newest)

    without = contents(clone)
    assert not any(f'"{newest}"' in without[path] for path in BY_RELEASE)
    came = [name for name, first in firsts["arguments"].items() if first == newest]
    assert came
    assert not {*came} & {*json.loads(without[ARGUMENTS])}
    assert f"tools/release/recorded/{newest}.jsonl" in changed
    assert not recorded.exists()
    wheel = wheel_of(clone, newest, names, old)
    for path in (HISTORY, VARIABLES, REGISTRY, *FOLLOWING):
        make = data.writers(wheel)[path]
        text = (clone / path).read_text(encoding="utf-8")
        assert path in changed
        assert make(wheel, text) == committed[path]


def contents(clone: Path) -> dict[str, str]:
    """Return what each file holds that names the release."""
    paths = (*BY_RELEASE, REGISTRY, *FOLLOWING)
    return {path: (clone / path).read_text(encoding="utf-8") for path in paths}


def wheel_of(root: Path, release: str, names: Names, before: Names) -> data.Wheel:
    """Return a release beside a copy of the repository; nothing of it is installed."""
    return data.Wheel(
        release=release,
        python="python",
        packages=root,
        names=names,
        before=before,
        root=root,
    )
