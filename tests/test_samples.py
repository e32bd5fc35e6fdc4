"""Every code sample of the documentation runs and shows what it gives.

What cannot run stands in a table here with the reason, and is checked as far as it can
be. A block that is neither fails.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from planner.app import cli
from planner.app.cli import solve
from tests import sample_machine
from tests.conftest import ROOT
from tests.samples import (
    PAGES,
    Sample,
    commands,
    run_doctest,
    run_python,
    samples_of,
    shell_lines,
    shows,
    unfenced_code,
)

IN_A_KERNEL = ROOT / "docs" / "notebooks.md"
"""Its cells have magics: tests/app/test_magic.py runs them in a kernel."""

# Files of vLLM whose folder has the name of a room here; and one invented on the page.
OF_VLLM = {
    ("adding-a-model.md", "models/minnow.py"),
}

# Blocks of text that no program prints, by their page and first line.
NOT_PRINTED = {
    ("docs/models.md", "Bundled: planned offline"): "what the Hub answers",
    ("CONTRIBUTING.md", "planner/app/         the doors: cli/ widgets/ voila/ doctor/, "
     "%plan"): "the folders: tested below",
    ("docs/publishing.md", '{"status": "ok", "sessions": 0, "max_sessions": 60, '
     '"pool": 10, "pool_size": 10}'): "of a server: tests/test_publishing_docs.py",
    ("docs/reading.md", "- uses: actions/checkout@v4"): "tests/test_action.py runs it",
    ("docs/reading.md", "- repo: https://github.com/OWNER/REPOSITORY"): "of another "
    "repository: tests/test_action.py reads the hook",
    (
        "docs/speed.md",
        "step        = sqrt(reading^2 + computing^2) + layers x layer + "
        "requests x request + all-reduces",
    ): "a formula",
    ("docs/agents.md", "{"): "settings of other programs",
    ("docs/notebooks.md", 'length = mo.ui.slider(4096, 40960, step=4096, '
     'label="max_model_len")'): "of marimo, which is not installed here",
    ("docs/notebooks.md", 'planner.plan("Qwen/Qwen3-8B", gpu="L4", '
     'max_model_len=length.value)'): "the second cell of it",
    (
        "docs/reading.md",
        "too close to call: Too close to call: one request of 40,960 tokens needs "
        "10.00 GiB of KV cache, and between 9.98 GiB and 10.84 GiB are expected to be "
        "left. ...",
    ): "of a file that another program writes",
    (
        "docs/upstream.md",
        'Startup memory: {"schema": 1, "rank": 0, "total": 85027979264, ..., '
        '"requested": 78225740923, "weights": 1203969024, "consumed": 1425140613, '
        '"peak_activation": 233834496, "cudagraphs_estimated": 203935449, '
        '"cudagraphs_charged": 203935449, "cudagraphs_captured": 58720256, '
        '"kv_cache": 76362830365}',
    ): "tests/dry/test_upstream_patch.py reads it from vLLM",
    ("docs/speed.md", "max(bytes / bandwidth, operations / peak)"): "a formula",
    (
        "docs/workshop/room.md",
        "The planner: http://0.0.0.0:8866/  (Ctrl+C ends it) Published: nothing runs "
        "or is read here for visitors.",
    ): "of a server: tests/app/test_room.py",
    ("docs/workshop/slides.md", "{{ message(larger) }}"): "tools/slides.py fills it in",
}  # fmt: skip

# Programs of a shell that a test does not start, and why. Files that their words name
# have to exist, and the shell has to understand the line.
NOT_STARTED = {
    "make": "sets up environments and runs the tests; its targets have to exist",
    "uvx": "asks a package registry; tests/versions types the same",
    "pip": "asks a package registry; extras have to exist",
    "python": "makes an environment",
    "python3": "makes an environment, or asks a package registry",
    "jupyter": "opens JupyterLab; tests/ui opens it on the lessons",
    "docker": "needs a container runtime; tests/test_deploy.py reads its files",
    "kubectl": "needs a cluster; what is piped into the planner is run",
    "systemctl": "needs systemd and its rights; tests/test_deploy.py reads the unit",
    "journalctl": "needs systemd",
    "nginx": "needs its rights; tests/security serves behind the same file",
    "claude": "another program; tests/app/mcp answers a client of the protocol",
    "curl": "asks a running server; tests/security asks it the same",
    "git": "asks another machine",
    "mkdir": "needs the system's rights",
    "cp": "needs the system's rights",
    "sed": "needs the system's rights",
}
SERVES = ("app", "mcp")
"""Commands of the planner that serve until they are stopped: tests/ui serves the app;
here their flags are read."""

SAMPLES = [sample for page in PAGES for sample in samples_of(page)]
TERMINALS = [
    (f"{sample} {command}", command, shown)
    for sample in SAMPLES
    if sample.is_terminal
    for command, shown in commands(sample)
]
SHELL = [sample for sample in SAMPLES if sample.language == "sh"]


def name_of(page: Path) -> str:
    """Return a page's path in the repository."""
    return str(page.relative_to(ROOT))


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let samples find an attached GPU, vLLM, a Ray cluster and the files they name."""
    sample_machine.set_up(tmp_path, monkeypatch)


def is_accounted_for(sample: Sample) -> bool:
    """Whether a test below runs the block, or a table says why none does."""
    first = sample.text.partition("\n")[0]
    return (
        sample.language in ("python", "sh")
        or sample.language.startswith("{")  # a directive of the site, no sample
        or sample.is_terminal
        or sample.is_shown_by_code
        or (name_of(sample.page), first) in NOT_PRINTED
    )


def test_every_block_runs_or_says_why_it_does_not() -> None:
    """A new one is Python, a terminal (`$ planner ...`), shell, or in a table here."""
    assert [] == [str(one) for one in SAMPLES if not is_accounted_for(one)]
    assert len(SAMPLES) >= 80


def test_no_code_stands_without_a_fence() -> None:
    """Nobody would run it."""
    assert [] == [code for page in PAGES for code in unfenced_code(page)]


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if page != IN_A_KERNEL
        and any(one.language == "python" for one in samples_of(page))
    ],
    ids=name_of,
)
def test_python_gives_what_the_page_shows(page: Path) -> None:
    """In order, sharing names; tests that a sample defines are run as well."""
    names: dict[str, Any] = {"__name__": "sample", "get_config": Config}
    printed = None
    for sample in samples_of(page):
        if sample.language != "python":
            if sample.is_shown_by_code:
                assert printed is not None
                assert shows(sample.text, printed), f"{sample} prints:\n{printed}"
            continue
        if ">>>" in sample.text:
            assert "" == run_doctest(sample, names)
            continue
        printed, wrong = run_python(sample, names)
        assert [] == wrong, str(sample)
    for name in [name for name in names if name.startswith("test_")]:
        names[name]()


@pytest.mark.parametrize(
    ("command", "shown"),
    [pair for _, *pair in TERMINALS],
    ids=[name for name, *_ in TERMINALS],
)
def test_a_terminal_shows_what_a_command_prints(
    command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output is compared where the page shows any."""
    piped = [shlex.split(part, comments=True) for part in command.split(" | ")]
    for words in piped:
        if words[0] != "planner":
            check_words(words)
            continue
        status = cli.main(words[1:])
        printed = capsys.readouterr().out

        # A page may show an error, as JSON.
        assert status in (cli.FITS, cli.DOES_NOT_FIT) or '"error": ' in shown
        assert not shown or shows(shown, printed), printed


@pytest.mark.parametrize("sample", SHELL, ids=str)
def test_shell_is_understood_and_names_what_is_there(
    sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planner's own commands run, but for those that serve."""
    read = subprocess.run(
        ["bash", "-n"], input=sample.text, capture_output=True, text=True, check=False
    )
    assert "" == read.stderr
    for words in shell_lines(sample):
        if Path(words[0]).name != "planner":
            check_words(words)
        elif words[1] in SERVES:
            cli.refuse_unknown(parser().parse_known_args(words[1:])[1], "")
        else:
            assert cli.FITS == cli.main(words[1:]), capsys.readouterr().out


def check_words(words: list[str]) -> None:
    """Hold a command that is not started to what can be known of it."""
    assert Path(words[0]).name in NOT_STARTED, f"{words[0]} is in no table of this test"
    if words[0] == "make":
        assert targets() >= {word for word in words[1:] if "=" not in word}
    for word in words[1:]:
        path = word.partition("=")[2] or word
        first = path.partition("/")[0]  # what is built may be there or not
        is_ours = first != "build" and (ROOT / first).exists()
        if is_ours and re.match(r"[\w.]+/|\w", path):
            assert list(ROOT.glob(path)), f"{word} is not in the repository"
        extra = re.search(r"^(?:\.|vllm-memory-planner)\[(\w+)\]$", word)
        assert not extra or f"\n{extra[1]} = [" in text_of("pyproject.toml"), word


def text_of(name: str) -> str:
    """Return a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def targets() -> set[str]:
    """Return what `make` can be asked for."""
    return set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))


def test_every_make_that_a_page_names_is_a_target() -> None:
    """In sentences and tables, too."""
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))
    }

    assert len(named) >= 15
    assert named <= targets()


def test_the_tables_hold_nothing_that_no_page_has() -> None:
    """Rows go when their samples go."""
    started = {Path(words[0]).name for one in SHELL for words in shell_lines(one)} | {
        part.split()[0] for _, command, _ in TERMINALS for part in command.split(" | ")
    }
    firsts = {
        (name_of(one.page), one.text.partition("\n")[0])
        for one in SAMPLES
        if one.language in ("text", "json")
    }

    assert set(NOT_STARTED) <= started
    assert set(NOT_PRINTED) <= firsts


def test_every_command_is_shown_somewhere() -> None:
    """Of the command line, and every question of the solver."""
    shown = [shlex.split(command, comments=True) for _, command, _ in TERMINALS]
    shown += [words for one in SHELL for words in shell_lines(one)]
    ours = [words for words in shown if Path(words[0]).name == "planner"]

    assert set(cli.COMMANDS) == {words[1] for words in ours}
    assert set(solve._QUESTIONS) == {words[2] for words in ours if words[1] == "solve"}


def test_commands_in_sentences_have_flags_that_are_known() -> None:
    """`planner solve context --requests N`: the command, its question, its flags."""
    named = {
        words
        for page in PAGES
        for words in re.findall(r"`planner ([a-z][^`]*)`", page.read_text("utf-8"))
    }
    unknown = [words for words in sorted(named) if not is_known(words.split())]

    assert len(named) >= 10
    assert [] == unknown


parser = cache(cli.build_parser)
"""Made once, not for each command."""


def is_known(words: list[str]) -> bool:
    """Whether the parser of a command, and of its question, has each flag."""
    made = parser()
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    for word in words:
        choices = [
            action.choices
            for action in made._actions
            if isinstance(action, argparse._SubParsersAction)
        ]
        if not choices:
            break
        if word not in choices[0]:
            return False
        made = choices[0][word]
    return flags <= set(made._option_string_actions)


def test_the_folders_that_contributors_are_shown_are_there() -> None:
    """Each folder before its description; in that, those inside or beside it."""
    (tree,) = [one for one in SAMPLES if one.text.startswith("planner/app/ ")]
    listed = []
    for line in tree.text.splitlines():
        folder, *words = re.findall(r"[\w/]+/(?= |$|[:,;)])", line)
        inside = ROOT / folder
        listed.append(inside)
        listed += [
            inside / word if (inside / word).exists() else inside.parent / word
            for word in words
        ]

    rooms = {
        path for path in (ROOT / "planner").iterdir() if (path / "__init__.py").exists()
    }
    assert rooms - {ROOT / "planner" / "data"} <= set(listed)
    assert [] == [str(path) for path in listed if not path.exists()]


def test_files_that_pages_name_are_there() -> None:
    """In the repository, or in `planner/` where a page begins with one of its rooms."""
    rooms = "|".join(
        path.parent.name for path in (ROOT / "planner").glob("*/__init__.py")
    )
    pattern = (
        rf"`((?:planner|tests|tools|docs|notebooks|{rooms})/[\w/.]+\.(?:py|json|md))`"
    )
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(pattern, page.read_text(encoding="utf-8"))
    }

    assert len(named) >= 40
    assert [] == [
        f"{page}: {name}"
        for page, name in sorted(named - OF_VLLM)
        if not (ROOT / name).exists() and not (ROOT / "planner" / name).exists()
    ]


def test_a_sample_that_shows_something_else_is_found() -> None:
    """In output, with and without what is left out, and in a comment."""
    page = ROOT / "page.md"
    sample = Sample(
        page=page,
        line=1,
        language="python",
        text="a = 2\na + 1  # 4\na  # 2, as above\nprint(a)  # prose\n'x'",
        is_shown_by_code=False,
    )
    printed, wrong = run_python(sample, {})

    assert ("2\n'x'\n", ["a + 1 is 3, not 4"]) == (printed, wrong)
    assert shows("a\n...\nd\n", "a\nb\nc\nd\n")
    assert shows("a ... d\n", "a b c d\n")
    assert not shows("a\n...\nc\n", "a\nb\nc\nd\n")
    assert not shows("a\n", "a\nb\n")


def test_figures_of_the_tutorial_s_sentences_are_shown_by_its_samples() -> None:
    """So that they cannot drift from what the planner says."""
    page = ROOT / "docs" / "tutorial.md"
    blocks = samples_of(page)
    shown = "\n".join(one.text for one in blocks).replace(",", "").replace("_", "")
    prose = page.read_text(encoding="utf-8")
    for one in blocks:
        prose = prose.replace(one.text, "")
    figures = re.findall(r"(?<![\w.])(\d[\d,.]*) (?:GiB|tokens)", prose)

    assert len(figures) >= 4
    for figure in figures:
        assert re.search(rf"\b{re.escape(figure.replace(',', ''))}", shown), figure
