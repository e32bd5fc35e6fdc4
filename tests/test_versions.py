"""The version stands in one place, and what repeats it agrees."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

import planner
from planner.models.families.reading import supported_architectures, vllm_architectures
from tests.conftest import ROOT
from tools import repository, versions

yaml = pytest.importorskip("yaml")
pytest.importorskip("check_jsonschema")
PAGES = ("README.md", "docs/reading.md", "CITATION.cff")


def text(name: str) -> str:
    """A file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_build_reads_the_version_of_the_package() -> None:
    """pyproject.toml names no version of its own."""
    read = tomllib.loads(text("pyproject.toml"))

    assert "version" not in read["project"]
    assert "planner/version.py" == read["tool"]["hatch"]["version"]["path"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", planner.__version__)


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    """Before the first release there is none but Unreleased, which is above all."""
    sections = re.findall(
        r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text("CHANGELOG.md"), re.M
    )
    released = [name for name, _ in sections[1:]]

    assert ("Unreleased", "") == sections[0]
    assert released[:1] in ([], [planner.__version__])
    assert all(date for _, date in sections[1:])


def test_the_citation_is_of_this_version() -> None:
    """By the format's own schema; dated as soon as the changelog is."""
    cited = yaml.safe_load(text("CITATION.cff"))
    dates = re.findall(r"^## \[\d.*\] - (\S+)$", text("CHANGELOG.md"), re.M)

    assert planner.__version__ == cited["version"]
    assert [str(cited[key]) for key in ("date-released",) if key in cited] == dates[:1]
    words = ["--builtin-schema", "vendor.citation-file-format", "CITATION.cff"]
    subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words], cwd=ROOT, check=True
    )


def test_examples_that_name_a_tag_name_this_one() -> None:
    """The action and the hook of docs/reading.md."""
    tags = re.findall(r"(?:@|rev: )v(\d+\.\d+\.\d+)$", text("docs/reading.md"), re.M)

    assert {planner.__version__} == set(tags)


def test_pages_name_the_repository_that_the_project_names() -> None:
    """`python tools/repository.py` writes them."""
    name = repository.named(text("pyproject.toml"))

    assert {path: text(path) for path in PAGES} == repository.pages(name)
    assert (name != repository.UNSET) == ("[![Open in" in text("README.md"))


def test_pages_say_how_many_architectures_are_read() -> None:
    """To the next ten: of vLLM's registry, in the changelog all."""
    ours = set(supported_architectures())
    of_vllm = round(len(ours & set(vllm_architectures())), -1)

    for name, count in (
        ("README.md", of_vllm),
        ("docs/scope.md", of_vllm),
        ("CHANGELOG.md", round(len(ours), -1)),
    ):
        assert [str(count)] == re.findall(r"ome (\d+) architectures", text(name)), name


def test_badges_open_notebooks_that_there_are() -> None:
    """On Colab, Kaggle and Binder, as soon as there is a repository."""
    (line,) = [
        line
        for line in repository.pages("o/r")["README.md"].splitlines()
        if "badge" in line and "<!--" not in line
    ]
    opened = re.findall(r"\]\((https://\S+?)\)(?: |$)", line)

    assert ["colab.research.google.com", "kaggle.com", "mybinder.org"] == [
        one.split("/")[2] for one in opened
    ]
    for one in opened:
        assert re.search(r"(?:github|github\.com|gh)/o/r/", one)
        assert (ROOT / re.findall(r"notebooks/\S+\.ipynb", one)[0]).is_file()


def test_the_repositorys_address_stands_in_one_place() -> None:
    """The tool writes it there, and a second time changes nothing."""
    once = repository.project_with(text("pyproject.toml"), "o/r")
    urls = tomllib.loads(once)["project"]["urls"]

    assert "o/r" == repository.named(once)
    assert "https://github.com/o/r/issues" == urls["Issues"]
    assert once == repository.project_with(once, "o/r")
    assert (
        "repository-code: https://github.com/o/r\n"
        in (repository.pages("o/r")["CITATION.cff"])
    )
    assert 2 == repository.main(["https://example.org/o/r"])


def test_a_release_names_its_repository_and_an_address() -> None:
    """Until then nobody can open a link to it, and mail goes to a reserved domain."""
    is_released = bool(re.findall(r"^## \[\d", text("CHANGELOG.md"), re.M))
    project = text("pyproject.toml")
    is_unset = repository.named(project) == repository.UNSET or ".example" in project

    assert not (is_released and is_unset)


def test_the_run_of_one_environment_leaves_the_other_rows_as_they_are() -> None:
    """The table of releases is written by the tool, in the order of its list."""
    row = ["app-lowest", "3.11", "8.1.9", "2.0.3", "5.24.0", "1.0.0", "0.5.13", "app"]
    page = text("docs/releasing.md")
    others = [line for line in page.splitlines() if not line.startswith("| app-lowest")]
    written = versions.page_with(page, [row]).splitlines()

    assert f"| {' | '.join(row)} |" in written
    assert others == [line for line in written if not line.startswith("| app-lowest")]
    names = [one.name for one in versions.ENVIRONMENTS]
    rows = [name for line in written if (name := line[2:].split(" |")[0]) in names]
    assert [name for name in names if name in rows] == rows
