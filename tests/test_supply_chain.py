"""What is shipped and installed: its licences, and the bill of materials."""

from __future__ import annotations

from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest

from tools import licences, lock, sbom

PROJECT = '[project]\nlicense-files = ["planner/vendored/x-LICENSE.txt"]\n'


def test_every_licence_is_one_that_is_allowed() -> None:
    """Packages of the app on this machine, and files of others in the package."""
    pytest.importorskip("voila")

    assert list(licences.of_packages()) == []
    assert list(licences.of_files(licences.ROOT)) == []


@pytest.mark.parametrize(
    ("header", "text", "found"),
    [
        ("License-Expression", "(MIT OR GPL-3.0-only) AND 0BSD", {"GPL-3.0-only"}),
        ("License", "MPL-2.0 AND MIT", set()),
        ("License", "Proprietary", {"Proprietary"}),
        ("Classifier", "License :: OSI Approved :: MIT License", set()),
        ("Classifier", "License :: Other/Proprietary License", {"Other"}),
    ],
)
def test_a_licence_that_is_not_allowed_is_found(
    monkeypatch, header, text, found
) -> None:
    """Each part of an expression; old names are read as the new ones."""
    told = Message()
    told[header] = text
    monkeypatch.setattr(metadata, "metadata", lambda _name: told)
    wrong = {one.partition("/")[0] for one in licences.licences("x") - licences.ALLOWED}

    assert wrong == found
    assert bool(found) == any("is not allowed" in one for one in licences.of_packages())


def test_a_copied_file_without_its_licence_is_found(tmp_path: Path) -> None:
    """In a folder for them, or among the package's own."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    folder = tmp_path / "planner" / "vendored"
    folder.mkdir(parents=True)
    (folder / "x.js").write_text("/* Copyright somebody */")
    (folder.parent / "y.js").write_text("/* Licensed under the MIT license */")
    (folder.parent / "own.js").write_text("export const a = 1;")
    before = list(licences.of_files(tmp_path))
    (folder / "x-LICENSE.txt").write_text("MIT")

    assert [one.partition(":")[0] for one in before] == [
        "planner/vendored/x.js",
        "planner/y.js",
    ]
    assert len(list(licences.of_files(tmp_path))) == 1


def test_the_bill_lists_what_the_app_needs_and_what_it_holds() -> None:
    """Nothing that only tests need; plotly.js in its version."""
    bill = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [
            {"name": "Jupyter_Core", "bom-ref": "a"},
            {"name": "pytest", "bom-ref": "b"},
        ],
        "dependencies": [
            {"ref": "root", "dependsOn": ["a", "b"]},
            {"ref": "a"},
            {"ref": "b", "dependsOn": ["a"]},
        ],
    }
    made = sbom.shipped(bill, {"jupyter-core"})

    assert [one["bom-ref"] for one in made["components"]] == ["a"]
    assert made["dependencies"] == [
        {"ref": "root", "dependsOn": ["a"]},
        {"ref": "a", "dependsOn": []},
    ]
    assert sbom.vendored()["purl"].startswith("pkg:npm/plotly.js-basic-dist-min@4.")


def test_an_installation_takes_the_beginning_of_the_lock() -> None:
    """Up to the title of the next part; the last part is all of it."""
    text = (
        "# made by\n# app\na==1 \\\n    --hash=sha256:0\n# lab\nb==2\n"
        "# docs\nc==3\n# test\nd==4\n"
    )

    assert lock.pins_of(lock.upto("app", text)) == ["a==1"]
    assert lock.pins_of(lock.upto("docs", text)) == ["a==1", "b==2", "c==3"]
    assert lock.upto("test", text) == text
