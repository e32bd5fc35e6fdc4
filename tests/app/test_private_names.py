"""Private names of libraries that the server needs: few, known, and still there."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("voila")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "planner" / "app" / "voila"
FILES = (
    *sorted(FOLDER.glob("*.py")),
    ROOT / "planner" / "app" / "jupyter_extension.py",
)
PRIVATE = {
    "_pending_kernels": "jupyter_client.multikernelmanager:MultiKernelManager",
}
"""Where each is; docs/publishing.md says what it is for and what would replace it."""
OTHERS = {"_exit", "_repr_mimebundle_"}
"""Documented by Python and IPython, though they begin with an underscore."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _own(trees: list[ast.Module]) -> set[str]:
    """Names that the server's own code assigns or annotates."""
    found = set()
    for node in (one for tree in trees for one in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _used() -> Iterator[str]:
    """Private attributes that are read, and modules that are imported, from outside."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    own = _own(trees)
    for node in (one for tree in trees for one in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr not in own:
            yield from filter(_is_private, [node.attr])
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from filter(_is_private, node.module.split("."))


def _overridden() -> Iterator[str]:
    """Private methods of a library's class that the server's class replaces."""
    for path in FOLDER.glob("*.py"):
        module = import_module(f"planner.app.voila.{path.stem}")
        for name, made in inspect.getmembers(module, inspect.isclass):
            if made.__module__ != module.__name__:
                continue
            body = ast.parse(dedent(inspect.getsource(made))).body[0]
            assert isinstance(body, ast.ClassDef), name
            written = _own([ast.Module(body=body.body, type_ignores=[])])
            others = [one for one in made.__mro__ if one.__module__[:7] != "planner"]
            for other in others:
                yield from filter(_is_private, written & set(vars(other)))


def test_the_server_uses_no_other_private_names() -> None:
    """Each is one that the next version may change without a word."""
    assert {*_used(), *_overridden()} - OTHERS == set(PRIVATE)


def test_the_class_that_a_kernel_replaces_is_still_used() -> None:
    """Its name is public; that ipykernel takes the class by it is not promised."""
    from ipykernel.kernelapp import IPKernelApp

    assert "= IOPubThread(" in inspect.getsource(IPKernelApp.init_iopub)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_library_still_has_it(name: str) -> None:
    """Here, with the name and the place, before a page fails without them."""
    module, _, kind = PRIVATE[name].partition(":")

    assert name in inspect.getsource(getattr(import_module(module), kind))


def test_the_page_about_publishing_says_what_each_is_for() -> None:
    """With what would replace it."""
    text = (ROOT / "docs" / "publishing.md").read_text(encoding="utf-8")

    assert [] == [name for name in PRIVATE if f"| `{name}` |" not in text]
