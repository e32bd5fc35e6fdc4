"""`planner check`: exit status and forms."""

import json
import sys

import pytest

from planner.app.cli import main

STARTS = "vllm serve Qwen/Qwen3-8B --max-model-len 8192\n"
DOES_NOT = "vllm serve Qwen/Qwen3-8B\n"
UNKNOWN = "vllm serve nobody/nothing-at-all\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a file of the working folder and return its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "serve.sh") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_the_exit_status_says_whether_one_does_not_start(file) -> None:
    """What could not be checked counts with --strict only."""
    good, bad = file(STARTS), file(DOES_NOT, "bad.sh")
    unknown = file(UNKNOWN, "unknown.sh")

    assert main(["check", good, "--gpu", "L4"]) == 0
    assert main(["check", good, bad, "--gpu", "L4"]) == 1
    assert main(["check", good, unknown, "--gpu", "L4"]) == 0
    assert main(["check", good, unknown, "--gpu", "L4", "--strict"]) == 1
    assert main(["check", file("nothing at all\n", "notes.txt")]) == 2


def test_json_counts_and_lists(file, capsys) -> None:
    """Plain values of every start."""
    main(["check", file(DOES_NOT), "--gpu", "L4", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert found["counts"]["does not start"] == 1
    assert sum(found["counts"].values()) == len(found["starts"]) == 1
    assert found["starts"][0]["path"] == "serve.sh"
    assert found["starts"][0]["gpus_total"] == 1


def test_annotations_are_one_line_each_and_escaped(file, capsys) -> None:
    """GitHub ends a property at a colon or a comma, and a message at the line's end."""
    name = file(json.dumps({"command": DOES_NOT, "id": "a, b"}) + "\n", "x.jsonl")
    main(["check", name, "--gpu", "L4", "--format", "github"])
    first, last = capsys.readouterr().out.splitlines()

    assert first.startswith(
        "::error file=x.jsonl,line=1,title=does not start%3A a%2C b::"
    )
    assert "40960" in first
    assert last == "1 checked: does not start 1"


def test_what_takes_pyyaml_to_read_is_said(file, tmp_path, monkeypatch, capsys) -> None:
    """Of a file, and of one of a folder, which is not passed over."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    name = file(
        "image: {repository: vllm/vllm-openai}\nargs: [--model, a/b]\n", "a.yaml"
    )
    file(STARTS)

    for path in (name, str(tmp_path)):
        assert main(["check", path, "--gpu", "L4"]) == 2
        said = capsys.readouterr()
        assert f"{name}: YAML is read with PyYAML: `pip install pyyaml`" in said.err
        assert main(["check", path, "--gpu", "L4", "--json"]) == 2
        assert "PyYAML" in json.loads(capsys.readouterr().out)["error"]
    assert main(["check", file(STARTS), "--gpu", "L4"]) == 0
