"""Write the repository's address into all that names it.

    python tools/repository.py https://github.com/OWNER/REPOSITORY
    python tools/repository.py                      the pages again

It stands in `[project.urls]` of pyproject.toml; README.md's badges, the examples of
docs/reading.md and CITATION.cff follow. Without an address there are no badges, and the
examples say OWNER/REPOSITORY.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNSET = "OWNER/REPOSITORY"
_GITHUB = "https://github.com/"
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_NOTEBOOK = "blob/main/notebooks/explorer.ipynb"
_BADGES = (
    (
        "Open in Colab",
        "https://colab.research.google.com/assets/colab-badge.svg",
        f"https://colab.research.google.com/github/{UNSET}/{_NOTEBOOK}",
    ),
    (
        "Open in Kaggle",
        "https://kaggle.com/static/images/open-in-kaggle.svg",
        f"https://kaggle.com/kernels/welcome?src={_GITHUB}{UNSET}/{_NOTEBOOK}",
    ),
    (
        "Open in Binder",
        "https://mybinder.org/badge_logo.svg",
        f"https://mybinder.org/v2/gh/{UNSET}/HEAD"
        "?urlpath=lab/tree/notebooks/explorer.ipynb",
    ),
)
_URLS = {
    "Repository": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Documentation": "/blob/main/docs/index.md",
}


def main(words: list[str]) -> int:
    """Write the files; the result is the exit status."""
    project = ROOT / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    name = named(text)
    if words:
        given = _ADDRESS.fullmatch(words[0])
        if given is None:
            print(f"{words[0]!r} is no {_GITHUB}{UNSET}.", file=sys.stderr)
            return 2
        name = given[1]
        project.write_text(project_with(text, name), encoding="utf-8")
    for path, written in pages(name).items():
        (ROOT / path).write_text(written, encoding="utf-8")
    return 0


def named(project: str) -> str:
    """Return owner/name in the text of pyproject.toml; UNSET where there is none."""
    address = tomllib.loads(project)["project"]["urls"].get("Repository", "")
    return address.removeprefix(_GITHUB) or UNSET


def project_with(project: str, name: str) -> str:
    """Return the text of pyproject.toml with the addresses of a repository."""
    own = "".join(f'{title} = "{_GITHUB}{name}{end}"\n' for title, end in _URLS.items())
    kept = re.sub(rf"^(?:{'|'.join(_URLS)}) = .*\n", "", project, flags=re.M)
    return re.sub(
        r"(?<=^\[project\.urls\]\n)(Homepage .*\n)", rf"\1{own}", kept, flags=re.M
    )


def pages(name: str) -> dict[str, str]:
    """Return the text of each page that names the repository, by its path."""
    before = {
        path: (ROOT / path).read_text(encoding="utf-8")
        for path in ("README.md", "docs/reading.md", "CITATION.cff")
    }
    cited = re.sub(r"^repository-code: .*\n", "", before["CITATION.cff"], flags=re.M)
    code = "" if name == UNSET else f"repository-code: {_GITHUB}{name}\n"
    reading = before["docs/reading.md"]
    (old,) = re.findall(rf"^- repo: {_GITHUB}(\S+)$", reading, re.M)
    return {
        "README.md": re.sub(
            r"(<!-- badges: begin -->\n).*?(?=<!-- badges: end -->)",
            rf"\g<1>{_badges(name)}",
            before["README.md"],
            flags=re.S,
        ),
        "docs/reading.md": reading.replace(old, name),
        "CITATION.cff": cited.replace("license:", f"{code}license:", 1),
    }


def _badges(name: str) -> str:
    if name == UNSET:
        return ""
    shown = (f"[![{title}]({picture})]({page})" for title, picture, page in _BADGES)
    return " ".join(shown).replace(UNSET, name) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
