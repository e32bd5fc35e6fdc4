"""A changed text says what it said but the change: read again, and run by a shell."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import planner
from planner import PlannerError
from planner.reading.logs.fixing import changed_text
from planner.reading.passage import line_at
from planner.reading.recognising import all_in

FOLDER = Path(__file__).parents[1] / "data/texts"
TEXTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.iterdir())
    if path.is_file()
    if path.name not in ("commands.json", "manifests.json")
}
CHANGES: tuple[dict[str, Any], ...] = (
    {"max_model_len": 12345},
    {"gpu_memory_utilization": 0.87},
    {"tensor_parallel_size": 2},
    {"model": "org/other"},
    {"seed": 7},
    {"enable_prefix_caching": True},
    {"max_model_len": None},
    {"max_num_seqs": 33, "max_model_len": 777},
    {"served_model_name": "it's $5"},
)
CMD = 'CMD="vllm serve Qwen/Qwen3-8B --max-model-len 8192"\n'
PYTHON = "import subprocess\nN = 8192\nsubprocess.run({})\n"
WORDS = '["vllm", "serve", "org/m", "--max-model-len", {}]'
NEW = {"max_model_len": 12345}


@pytest.mark.parametrize(
    ("text", "was", "now"),
    [
        (CMD + 'eval "$CMD"\n', "8192", "12345"),
        (CMD + "srun $CMD\n", "8192", "12345"),
        (CMD.replace('"', "'") + 'bash -c "$CMD"\n', "8192", "12345"),
        (CMD + 'bash -c "cd /x && $CMD"\n', "8192", "12345"),
        ("vllm serve org/m --max-model-len $((32*1024))\n", "$((32*1024))", "12345"),
        (PYTHON.format(WORDS.format("str(N)")), "8192", "12345"),
        ('c = ["vllm", "serve", "m/m"]\nc += ["--max-model-len", "9"]\n', "9", "12345"),
        ("A='--max-model-len 1 --seed 2'\nvllm serve org/m $A\n", "1", "12345"),
        ("vllm serve org/m --max-model-len='8192'\n", "8192", "12345"),
        (
            PYTHON.format('"vllm serve org/m --max-model-len " + str(N) + " -tp 2"'),
            "8192",
            "12345",
        ),
        (
            "A='--max-model-len 1'\n[ $X ] && A+=' --seed 2'\nvllm serve org/m $A\n",
            "vllm serve org/m $A",
            "vllm serve org/m $A --max-model-len 12345",
        ),
    ],
)
def test_a_value_is_changed_where_it_comes_from(text: str, was: str, now: str) -> None:
    """Of a variable where it is set, of an expression in its place."""
    assert planner.read(text).text(**NEW) == text.replace(was, now, 1)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("N=9\nvllm serve org/m --max-model-len $N --seed 2\n", " --max-model-len $N"),
        ("vllm serve org/m --max-model-len ${N:-9}\n", " --max-model-len ${N:-9}"),
        (
            PYTHON.format('f"vllm serve org/m --max-model-len {N} &"'),
            " --max-model-len {N}",
        ),
        (PYTHON.format(WORDS.format("str(N)")), ', "--max-model-len", str(N)'),
    ],
)
def test_a_flag_is_taken_out_where_its_value_is_used(text: str, gone: str) -> None:
    """Not where the value comes from: other commands may use it."""
    assert planner.read(text).text(max_model_len=None) == text.replace(gone, "")


@pytest.mark.parametrize(
    ("text", "changes", "line"),
    [
        ("[ -f x ] && " + CMD + 'bash -c "cd /x && $CMD"\n', {"model": "a/b"}, 2),
        (CMD + "eval $CMD\n", {"served_model_name": "a b"}, None),
        (
            'c = ["vllm", "serve", "m/m"]\nc.append("--enforce-eager")\n',
            {"enforce_eager": None},
            2,
        ),
        ((TEXTS["helm-stack-two.yaml"]), {"enable_prefix_caching": None}, None),
    ],
)
def test_what_cannot_be_changed_alone_names_its_line(
    text: str, changes: dict[str, Any], line: int | None
) -> None:
    """The number of the line and its words; nothing is given back."""
    with pytest.raises(PlannerError) as refused:
        planner.read(text).text(**changes)

    said = str(refused.value)
    assert line is None or line_at(text, text.index(text.split("\n")[line - 1])) in said


def test_a_name_that_vllm_does_not_have_is_not_written() -> None:
    """Neither a misspelt one nor the planner's own."""
    found = planner.read("vllm serve org/m")

    for name in ("max_modle_len", "compile_cache"):
        with pytest.raises(PlannerError, match=name):
            found.text(**{name: "cold"})


def _variants(text: str) -> Iterator[str]:
    """Yield a text as it is, and in forms in which other people write it."""
    yield text
    yield text + "\n" + text
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    yield f"apiVersion: v1\nkind: ConfigMap\ndata:\n  run.sh: |\n{indented}"
    for line in re.findall(r"^vllm serve [^\n\\\"$]*$", text, re.MULTILINE)[:1]:
        for use in ('eval "$Z"', "srun $Z", "$Z --port 1", 'sh -c "$Z"', 'echo "$Z"'):
            yield text.replace(line, f'Z="{line}"\n{use}', 1)
        yield text.replace(line, f"for i in 1 2; do {line} --port 800$i; done", 1)
        yield text.replace(line, f'Z=({line})\n"${{Z[@]}}"', 1)
        yield text.replace(line, f"if $Z; then\nA='--seed 1'\nfi\n{line} $A", 1)
        yield text.replace(line, f"cat <<EOF > run.sh\n{line}\nEOF", 1)
    for value in re.findall(r"(?<=[ =])\d{2,}(?=\s|$)", text, re.MULTILINE)[:1]:
        for new in ('"$Z"', "${Z:-9}", "$((9*1))", "{{ .Values.z }}", f"'{value}'"):
            yield text.replace(value, new, 1)
            yield f"Z={value}\n{text.replace(value, new, 1)}"
    for name, value in re.findall(r"(\w+)=(\d[\d.]*)(?=[,)\n])", text)[:1]:
        yield f"Z = {value}\n{text.replace(f'{name}={value}', f'{name}=Z * 1', 1)}"
    for words, flag in re.findall(r'("(--[a-z-]+)", "[^"]+")', text)[:1]:
        for new in (f'f"{flag}={{Z}}"', f'"{flag}", str(Z)', "*Z"):
            yield f"Z = 3\n{text.replace(words, new, 1)}"


def _starts(text: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return of each start what it is, and all that it is given."""
    found = [reading.to_dict() for reading in all_in(text)]
    return [
        (
            {
                "kind": one["kind"],
                "unknown": one["unknown"],
                "env": one["inputs"]["env"],
            },
            {"model": one["inputs"]["model"]}
            | {"vllm_version": one["inputs"]["vllm_version"]}
            | one["inputs"]["engine_args"]
            | one["kept"],
        )
        for one in found
    ]


def _with(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, str]:
    """Return values as texts: `12345` and `"12345"` say the same in YAML."""
    values = {**given, **changes}.items()
    return {n: str(value).strip("[]'\"") for n, value in values if value is not None}


def _is_the_same_but(
    reading: planner.Reading, text: str, changes: Mapping[str, Any]
) -> bool:
    before, after = _starts(reading.given), _starts(text)
    if len(before) != len(after):
        return False
    for at, (was, now) in enumerate(zip(before, after, strict=True), 1):
        shown = _with(now[1], {})
        likely = [_with(was[1], changes)]
        likely += [_with(was[1], {})] if at != reading.number else []
        if was[0] != now[0] or shown not in likely:
            return False
    return True


def test_an_edit_changes_one_thing_or_is_refused() -> None:
    """Of every text in every form, whatever is changed: a law, one assertion."""
    random, wrong, num_changed = Random(36), [], 0
    for name, original in TEXTS.items():
        variants = list(dict.fromkeys(_variants(original)))
        for text in random.sample(variants, min(len(variants), 3)):
            try:
                readings = all_in(text)
            except PlannerError:
                continue
            reading, changes = random.choice(readings), random.choice(CHANGES)
            try:
                new = reading.text(**changes)
            except PlannerError as error:
                wrong += [] if str(error).endswith(".") else [(name, str(error))]
                continue
            num_changed += 1
            if not _is_the_same_but(reading, new, changes):
                wrong.append((name, changes, text, new))

    assert wrong == []
    assert num_changed > len(TEXTS)


_RUN = """
vllm() { for word in "$@"; do printf '%s|' "$word"; done; echo; }
srun() { "$@"; }
timeout() { shift; "$@"; }
"""
_SCRIPTS = (
    "vllm serve org/m {0}",
    "vllm serve org/m {0} > log.txt --port 1",
    "A='{0}'\nvllm serve org/m $A --port 1",
    "A='{0} --port 1'\nvllm serve org/m $A",
    "A='--port 1'\nA=\"$A {0}\"\nvllm serve org/m $A",
    "A='{0}'\nA=\"$A --port 1\"\nvllm serve org/m $A",
    "if false; then\nA='{0} --port 1'\nfi\nvllm serve org/m $A",
    "C='vllm serve org/m {0}'\neval \"$C\"",
    "C='vllm serve org/m {0}'\neval $C",
    "C='vllm serve org/m {0}'\n$C",
    "C='vllm serve org/m {0}'\nsrun $C --port 1",
    "C='vllm serve org/m {0}'\necho will run $C\ntimeout 9 $C",
    'C=\'vllm serve org/m {0}\'\nD="$C --port 1"\neval "$D"',
    'N=8192\nC="vllm serve org/m --max-model-len $N"\neval $C',
    'N=8192\nvllm serve org/m --max-model-len="$N" --port 1',
    "vllm serve org/m --max-model-len ${{N:-8192}} --port 1",
    "vllm serve org/m --max-model-len $((8*1024))",
    "E=\nvllm serve $E org/m {0} $E",
)


def _passed(script: str, folder: Path) -> list[list[str]]:
    """Return the words of each call of vLLM in a script that a shell runs."""
    told = subprocess.run(
        ["/bin/sh", "-c", _RUN + script],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={},
    )
    files = "".join(one.read_text(encoding="utf-8") for one in folder.glob("log.txt"))
    lines = (told.stdout + files).splitlines()
    return [line.split("|")[:-1] for line in lines if line.endswith("|")]


def _last(words: list[str]) -> dict[str, str]:
    """Return what vLLM's parser takes: of a flag that stands twice, the last value."""
    given = {"command": " ".join(words[:2])}
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            given[flag] = value if equals else following
    return given


def test_a_shell_passes_on_what_was_changed(tmp_path: Path) -> None:
    """Not by the planner's own reader: a shell runs the script before and after."""
    wrong = []
    flag = "--max-model-len"
    scripts = [
        script.format(f"{flag}{sign}8192") for script in _SCRIPTS for sign in " ="
    ]
    for script in dict.fromkeys(scripts):
        expected = _last(_passed(script, tmp_path)[-1])
        new = planner.read(script).text(max_model_len=777)
        if _last(_passed(new, tmp_path)[-1]) != expected | {flag: "777"}:
            wrong.append((script, new))

    assert wrong == []


def test_a_change_of_an_answer_that_has_no_place_is_a_command_and_says_why() -> None:
    """The user's text is not given back as if it had the change."""
    reading = planner.read(TEXTS["helm-stack-two.yaml"], start=2)
    plan = reading.plan(gpu="L4", max_num_seqs=4)
    text, why = changed_text(
        reading, {"max_num_seqs": 4, "compile_cache": "cold"}, plan
    )

    assert text == plan.command()
    assert "enable_prefix_caching" in why
