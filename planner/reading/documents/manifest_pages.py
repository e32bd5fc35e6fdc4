"""The documents of a page, with their templates filled in."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from planner.errors import PlannerError
from planner.reading.documents.blocks import blocks_of, is_hcl
from planner.reading.documents.templates import (
    Scope,
    beside,
    filled,
    hidden,
    scope_of,
    without_control,
)
from planner.reading.documents.yaml_nodes import Node, documents
from planner.reading.passage import Passage
from planner.reading.starts.frameworks import NoStartError

_LIKE = re.compile(
    r"(?:\s|#[^\n]*\n)*(?:---|%YAML|[{\[]|- |[\"']?\$?[\w./-]+[\"']?[ \t]*:(?:\s|\Z))"
)
_NAMED = re.compile(r"vllm|model|engine|max[-_]|parallel|kaito", re.IGNORECASE)
_CLEAR = re.compile(
    r"^(?:apiVersion|services|servingEngineSpec|modelArtifacts|applications)[ \t]*:",
    re.MULTILINE,
)
_DOCUMENT = re.compile(r"^(?:services|apiVersion|version)[ \t]*:", re.MULTILINE)
_CLEAR_BUT_FOR_YAML = re.compile(r"^[\w-]*(?:model|engine)[\w-]*[ \t]*:", re.MULTILINE)
_FOREIGN = re.compile(
    r"^apiVersion:[ \t]*(?P<group>(?!\S*k8s\.io/)[\w-]+(?:\.[\w-]+)+/\w+)", re.MULTILINE
)
_KIND = re.compile(r"^kind:[ \t]*([A-Z]\w+)", re.MULTILINE)
_ENGINE = re.compile(r":[ \t]*[\"']?vllm[\"']?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_NAMES_MODEL = re.compile(
    r"\b(?:model\w*|uri|url|repo\w*)[ \t]*:[ \t]*[\"']?(?:hf://)?"
    r"(?P<model>[\w.-]+/[\w.-]+)[\"']?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)


def roots_of(page: Passage) -> tuple[list[Node], Scope]:
    """Return the documents of a page, their templates filled, and their values."""
    if not _NAMED.search(page.text):
        return [], Scope()
    is_blocks = is_hcl(page.text)
    env: dict[str, str] = {}
    if _DOCUMENT.search(page.text):
        page, env = beside(page)
    roots = _parsed(page, is_hcl=is_blocks)
    scope = replace(scope_of(roots), env=env)
    full = filled(page, scope, is_hcl=is_blocks)
    if full is not page:
        with suppress(PlannerError):  # a value that would be a sign of the language
            roots = _parsed(full, is_hcl=is_blocks) or roots
    return roots, scope


def _parsed(page: Passage, *, is_hcl: bool) -> list[Node]:
    """Return the documents of a page; none where it is nothing of the kind."""
    masked = hidden(page, is_hcl=is_hcl)
    if is_hcl or not _LIKE.match(masked.text):
        root = blocks_of(masked)
        return [] if root is None else [root]
    try:
        return documents(masked)
    except PlannerError as error:
        with suppress(PlannerError):
            return documents(without_control(masked))
        is_missing = "PyYAML" in str(error) and _CLEAR_BUT_FOR_YAML.search(page.text)
        root = blocks_of(masked)  # TOML begins as a list of YAML does
        if root is not None:
            return [root]
        if is_missing or page.expansion.is_too_large or _CLEAR.search(page.text):
            raise
        return []


def is_document(page: Passage) -> bool:
    """Return whether a page is a document with tables in it, whatever these say.

    A note of a person may be written in lines of names and values, too.
    """
    with suppress(PlannerError):
        roots = (
            _parsed(page, is_hcl=is_hcl(page.text)) if _NAMED.search(page.text) else []
        )
        return any(
            value.kind != "scalar"
            for root in roots
            for item in (root.items or (root,))
            for _, value in item.pairs
        )
    return False


def check_form(page: Passage) -> None:
    """Refuse an object of a platform that is not known, naming what it holds."""
    version = _FOREIGN.search(page.text)
    if version is None or not _ENGINE.search(page.text):
        return
    kind = _KIND.search(page.text, version.end())
    models = sorted({match["model"] for match in _NAMES_MODEL.finditer(page.text)})
    said = f" It names {', '.join(models[:3])}." if models else ""
    raise NoStartError(
        f"{kind[1] if kind else 'An object'} of {version['group']} is no form that the "
        f"planner knows, and what it gives vLLM is not told here.{said} Give "
        "the command that it runs."
    )
