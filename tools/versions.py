"""Build the package, and test it with the oldest and newest of what it needs.

    make test-versions
    python tools/versions.py --only colab-6 --only colab-7
    python tools/versions.py --only installed       the wheel alone, as pages install it

Each environment is installed into build/versions, takes a minute or two, and is tested:
in the clone by a part of the tests, outside of it by the built wheel alone, and with
the versions of Google Colab in a real browser. Each result goes into the table of
docs/releasing.md at once; what --only leaves out keeps its row. A Python that this
machine lacks is said to be missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.page_table import table, with_rows  # noqa: E402

BUILD = ROOT / "build" / "versions"
PAGE = ROOT / "docs" / "releasing.md"
CORE = ("tests/planning", "tests/engine")
VIEWS = (
    *("tests/show", "tests/app/widgets", "tests/app/test_widgets.py"),
    *("tests/app/test_magic.py", "tests/app/test_notebook_services.py"),
    *("tests/models/test_hub_search.py", "tests/models/test_huggingface.py"),
)
COMMANDS = ("tests/app/test_cli.py", "tests/app/test_output.py")
TASKS = ("tests/ui/test_tasks.py", "tests/ui/test_paste.py")
TESTED = ("pytest", "hypothesis", "fastjsonschema", "jsonschema", "packaging")
"""What the tests need beside the extra."""
INSTALLED = "installed"
"""The row of what the pages have people type."""
BUILDERS = ("uv", "twine", "pyroma", "py-rattler-build")
RENDERED = (
    "from rattler_build import Stage0Recipe as R, VariantConfig as V\n"
    "found = R.from_file('deploy/conda/recipe.yaml').render(V.from_yaml('{}'))\n"
    "print([one.recipe.package.name for one in found])"
)
"""Reads the recipe for conda as its builder does; to build it takes a channel."""
# Of Colab's runtime 2026.01. Notebook 7 shows widgets of ipywidgets 7 with
# jupyterlab_widgets 1, which pip does not choose by itself.
COLAB = (
    *("ipywidgets==7.7.1", "ipykernel==6.17.1", "pandas==2.2.2", "plotly==5.24.1"),
    *("huggingface_hub==0.36.0", "anywidget==0.9.21", "pyyaml==6.0.3"),
    *("ipython==7.34.0", "traitlets==5.7.1"),
)
# pandas before 2.2.2 is built for numpy 1, and does not say so.
OF_LOWEST = "numpy<2\n"
NAMED = ("ipywidgets", "pandas", "plotly", "huggingface_hub", "voila")
HEAD = ("environment", "Python", *NAMED, "result")
# Libraries of years ago warn of what the newest Pythons deprecate.
QUIET = (
    *("-W", "ignore::DeprecationWarning", "-W", "ignore::ResourceWarning"),
    *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # hypothesis 6.170 says this of its own object, where Python 3.14 counts references.
    *("-W", "ignore:It looks like `register_random`"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed, and how it is tested."""

    name: str
    python: str
    extra: str = ""
    is_lowest: bool = False
    """The lowest version of each dependency that the extra admits."""
    pins: tuple[str, ...] = ()
    """Instead of an extra: what a notebook service has."""
    tests: tuple[str, ...] = ()
    is_app: bool = False
    """Whether the app is served by it, and asked its tasks in Chromium."""
    is_alone: bool = False
    """Whether the built wheel is used outside the clone."""

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return BUILD / self.name

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"


ENVIRONMENTS = (
    Environment(name="core-3.11", python="3.11", tests=CORE, is_alone=True),
    Environment(
        name="notebook-lowest",
        python="3.11",
        extra="notebook",
        is_lowest=True,
        tests=VIEWS,
        is_alone=True,
    ),
    Environment(
        name="app-lowest",
        python="3.11",
        extra="app",
        is_lowest=True,
        tests=VIEWS,
        is_app=True,
        is_alone=True,
    ),
    Environment(
        name="newest-3.11",
        python="3.11",
        extra="all",
        tests=VIEWS,
        is_app=True,
        is_alone=True,
    ),
    Environment(
        name="newest-3.12", python="3.12", extra="all", tests=CORE, is_alone=True
    ),
    Environment(
        name="newest-3.13", python="3.13", extra="all", tests=VIEWS, is_alone=True
    ),
    Environment(
        name="newest-3.14",
        python="3.14",
        extra="all",
        tests=(*CORE, *VIEWS, *COMMANDS),
        is_alone=True,
    ),
    Environment(name="colab-6", python="3.12", pins=(*COLAB, "notebook==6.5.7")),
    Environment(
        name="colab-7",
        python="3.12",
        pins=(*COLAB, "notebook==7.4.7", "jupyterlab_widgets<2"),
    ),
)


def main() -> int:
    """Build, install and test; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    wheel = build()
    rows = []
    if not options.only or INSTALLED in options.only:
        rows.append([INSTALLED, *[""] * (len(HEAD) - 2), _as_pages_say(wheel)])
        _write(rows)
    for environment in ENVIRONMENTS:
        if not options.only or environment.name in options.only:
            rows.append(result(environment, wheel))
            _write(rows)
    print(table(HEAD, rows))
    return int(any("failed" in cell for row in rows for cell in row))


def build() -> Path:
    """Build wheel and source archive twice, compare them, and check their pages.

    Raises:
        SystemExit: where two builds differ.
    """
    tools = BUILD / "tools" / "bin"
    if not (tools / "uv").exists():
        run(sys.executable, "-m", "venv", str(tools.parent))
        run(str(tools / "python"), "-m", "pip", "install", "--quiet", *BUILDERS)
    made = [_built(tools, BUILD / name) for name in ("dist", "dist-again")]
    sums = [
        {path.name: sha256(path.read_bytes()).hexdigest() for path in paths}
        for paths in made
    ]
    if sums[0] != sums[1]:
        raise SystemExit(f"Two builds differ: {sums}")
    run(str(tools / "twine"), "check", "--strict", *map(str, made[0]))
    run(str(tools / "pyroma"), "--min=10", str(ROOT))
    run(str(tools / "python"), "-c", RENDERED)
    print(f"Built twice, byte for byte the same: {', '.join(sums[0])}")
    return next(path for path in made[0] if path.suffix == ".whl")


def _built(tools: Path, folder: Path) -> list[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    # The time of the commit is that of every file.
    stamp = output("git", "log", "-1", "--format=%ct")
    run(
        *(str(tools / "uv"), "build", "--quiet", "--out-dir", str(folder)),
        env={"SOURCE_DATE_EPOCH": stamp},
    )
    return sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))


def _as_pages_say(wheel: Path) -> str:
    """Install the wheel in clean environments, beside another `planner` too."""
    uv = str(BUILD / "tools" / "bin" / "uv")
    test = "tests/versions/test_installed.py"
    return _pytest(test, PLANNER_WHEEL=str(wheel), PLANNER_UV=uv)


def result(environment: Environment, wheel: Path) -> list[str]:
    """Install and test an environment; returns its row of the table."""
    print(f"== {environment.name}", flush=True)
    if not _installed(environment, wheel):
        return [environment.name, environment.python, *[""] * len(NAMED), "not here"]
    said = [
        *([_tests(environment)] if environment.tests else []),
        *([_app(environment)] if environment.is_app else []),
        *([_alone(environment)] if environment.is_alone else []),
        *([_explorer(environment)] if environment.pins else []),
    ]
    return [
        environment.name,
        environment.python,
        *_versions(environment),
        "; ".join(said),
    ]


def _installed(environment: Environment, wheel: Path) -> bool:
    uv = str(BUILD / "tools" / "bin" / "uv")
    if not environment.interpreter.exists():
        made = subprocess.run(
            [
                *(uv, "venv", "--quiet", "--no-python-downloads"),
                *("--python", _python(environment.python), str(environment.folder)),
            ],
            cwd=ROOT,
            check=False,
        )
        if made.returncode:
            return False
    install = (
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        str(environment.interpreter),
    )
    if environment.pins:
        run(*install, *environment.pins)
    elif environment.extra:
        run(
            *install,
            *_resolution(is_lowest=environment.is_lowest),
            *("-r", "pyproject.toml", "--extra", environment.extra),
        )
    # Beside the clone, whose source is tested first: the wheel alone.
    run(*install, "--no-deps", "--reinstall-package", "vllm-memory-planner", str(wheel))
    if environment.tests:
        run(*install, *TESTED, *([] if environment.extra else ["pyyaml"]))
    return True


def _resolution(*, is_lowest: bool) -> tuple[str, ...]:
    if not is_lowest:
        return ("--resolution", "highest")
    limits = BUILD / "lowest.txt"
    limits.write_text(OF_LOWEST, encoding="utf-8")
    return ("--resolution", "lowest-direct", "--constraint", str(limits))


def _python(version: str) -> str:
    """Return pyenv's Python, whose shims run no other than the chosen one, or a name.

    >>> _python("2.0")
    '2.0'
    """
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    return str(found[-1]) if found else version


def _versions(environment: Environment) -> list[str]:
    code = (
        "import json, sys\n"
        "from importlib.metadata import version, PackageNotFoundError\n"
        "def of(name):\n"
        "    try: return version(name)\n"
        "    except PackageNotFoundError: return ''\n"
        "print(json.dumps([of(name) for name in sys.argv[1:]]))"
    )
    found: list[str] = json.loads(
        output(str(environment.interpreter), "-c", code, *NAMED)
    )
    return found


def _tests(environment: Environment) -> str:
    """Run a part of the tests in the clone, with the environment's libraries."""
    tested = subprocess.run(
        [
            *(str(environment.interpreter), "-m", "pytest", "-q", *environment.tests),
            *("-p", "no:cacheprovider", *QUIET),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
    )
    return _summary(tested)


def _app(environment: Environment) -> str:
    """Ask the app its tasks, served by the environment, in this one's Chromium."""
    asked = _pytest(*TASKS, PLANNER_APP_PYTHON=str(environment.interpreter))
    return f"app in Chromium: {asked}"


def _explorer(environment: Environment) -> str:
    """Drive the explorer in the environment's own Jupyter."""
    words = ("tests/versions", "-k", environment.name)
    driven = _pytest(*words, PLANNER_VERSIONS=str(BUILD))
    return f"explorer in Chromium: {driven}"


def _pytest(*words: str, **variables: str) -> str:
    """Run tests with this Python, which has Playwright."""
    driven = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
    )
    return _summary(driven)


def _summary(tested: subprocess.CompletedProcess[str]) -> str:
    last = tested.stdout.strip().splitlines()[-1]
    if tested.returncode:
        print(tested.stdout[-6000:])
        return f"failed: {last}"
    return re.sub(r"(, \d+ deselected)? in [\d.]+s.*", "", last)


def _alone(environment: Environment) -> str:
    """Use the wheel in a folder of its own, with the lessons' notebooks beside it."""
    with tempfile.TemporaryDirectory() as place:
        lessons = Path(place, "lessons")
        shutil.copytree(ROOT / "notebooks" / "workshop" / "solutions", lessons)
        script = Path(place, "wheel_alone.py")
        shutil.copy(ROOT / "tools" / script.name, script)
        used = subprocess.run(
            [str(environment.interpreter), "-I", str(script), str(lessons)],
            cwd=place,
            # Or the program's own Python would find the clone.
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
        )
    print(used.stdout)
    last = (used.stdout.strip() or "nothing").splitlines()[-1]
    return (
        f"wheel alone: {last}"
        if used.returncode == 0
        else f"wheel alone failed: {last}"
    )


def output(*words: str, folder: Path = ROOT) -> str:
    """Return what a command prints."""
    found = subprocess.run(
        words, cwd=folder, check=True, text=True, stdout=subprocess.PIPE
    )
    return found.stdout.strip()


def run(*words: str, env: dict[str, str] | None = None) -> None:
    """Run a command, which has to succeed."""
    subprocess.run(words, cwd=ROOT, check=True, env=os.environ | (env or {}))


def _write(rows: list[list[str]]) -> None:
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def page_with(page: str, rows: list[list[str]]) -> str:
    """Return the page on releases with these rows in its table, in their own order."""
    names = [INSTALLED, *(one.name for one in ENVIRONMENTS)]
    return with_rows(page, "versions", rows, names)


if __name__ == "__main__":
    sys.exit(main())
