"""The OpenAPI document of the app's `/api/plan`, and the page that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from planner.data import DATA
from planner.engine.arguments import ARGUMENTS
from planner.engine.releases import NEWEST
from planner.export import json_schema
from planner.show.document import style
from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import command_line, row, table
from planner.version import __version__

DOCUMENT = "openapi.json"
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
_DRAFT_7, _HERE = "#/definitions/", "#/components/schemas/"
_METHODS = ("get", "post")


def document(base: str = "/") -> dict[str, Any]:
    """Return the document, with the schema of plans and vLLM's engine arguments.

    `base` is the path of the app's address.

    >>> document()["openapi"], sorted(document()["paths"])
    ('3.1.0', ['/api/plan'])
    """
    whole: dict[str, Any] = json.loads((DATA / DOCUMENT).read_text(encoding="utf-8"))
    whole["info"]["version"] = __version__
    whole["servers"] = [{"url": base.rstrip("/") or "/"}]
    schemas = whole["components"]["schemas"]
    given = schemas["Question"]["properties"]
    given["vllm_version"]["default"] = NEWEST
    given["engine_args"]["properties"] = {
        one.name: {"description": one.text} for one in ARGUMENTS.values()
    }
    # OpenAPI has all schemas in one place. What the plan's uses of draft 7 means the
    # same in the draft of OpenAPI 3.1.
    plan = json.loads(json_schema().replace(_DRAFT_7, _HERE))
    del plan["$schema"], plan["$id"]
    return whole | {
        "components": whole["components"]
        | {"schemas": schemas | plan.pop("definitions") | {"Plan": plan}}
    }


def page_html(described: Mapping[str, Any]) -> str:
    """Return the page of a document: it loads no other file, and runs no script."""
    info = described["info"]
    title = f"{info['title']}: its answers to programs"
    lines: tuple[Content, ...] = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:;base64,="),
        tag("style", style(), Html(_own_style())),
    )
    body = tag(
        "main",
        tag("h1", title),
        tag("p", info["summary"], " ", info["description"]),
        tag(
            "p",
            tag("a", DOCUMENT, href=f"{_root(described)}/api/{DOCUMENT}"),
            f" is the same for programs: OpenAPI {described['openapi']}, "
            f"planner {info['version']}.",
        ),
        _operations(described),
        class_="pl-plan pl-api",
    )
    page = tag("html", tag("head", lines), tag("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _own_style() -> str:
    return Path(__file__).with_name("api.css").read_text(encoding="utf-8")


def _root(described: Mapping[str, Any]) -> str:
    return str(described["servers"][0]["url"]).rstrip("/")


def _operations(described: Mapping[str, Any]) -> Iterator[Html]:
    for path, methods in described["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield _operation(described, path, method.upper(), methods[method])


def _operation(
    described: Mapping[str, Any], path: str, method: str, said: Mapping[str, Any]
) -> Html:
    """Write a section: the entries of a question, examples, and the answers."""
    content = said["requestBody"]["content"]["application/json"]
    schemas = described["components"]["schemas"]
    entries = schemas["Question"]["properties"]
    return fragment(
        tag("h2", tag("code", f"{method} {path}"), " ", said["summary"]),
        tag("p", said["description"].replace("`", "")),
        _scrolling(
            table(
                "A question",
                ("Entry", "Type", "Meaning"),
                starmap(_entry, entries.items()),
            )
        ),
        (_example(one, described, path) for one in content["examples"].values()),
        _scrolling(
            table("Answers", ("Status", "Meaning"), _answers(said["responses"]))
        ),
        _scrolling(
            table(
                "A plan, with status 200",
                ("Field", "Type", "Meaning"),
                starmap(_entry, schemas["Plan"]["properties"].items()),
            )
        ),
    )


def _entry(name: str, schema: Mapping[str, Any]) -> Html:
    return row(
        tag("code", name),
        tag("td", _type_of(schema)),
        tag("td", schema.get("description", "")),
    )


def _type_of(schema: Mapping[str, Any]) -> str:
    """Name a schema's type in a few words.

    >>> _type_of({"type": ["object", "null"]}), _type_of({"enum": ["serve", "llm"]})
    ('object or null', 'serve or llm')
    """
    if "const" in schema:
        return str(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    found = schema.get("enum") or schema.get("type", "any")
    return " or ".join(map(str, [found] if isinstance(found, str) else found))


def _example(given: Mapping[str, Any], described: Mapping[str, Any], path: str) -> Html:
    body = json.dumps(given["value"]).replace("'", "'\\''")
    address = f"http://ADDRESS{_root(described)}{path}"
    text = f"curl {address} -H 'Content-Type: application/json' -d '{body}'"
    return fragment(
        tag("p", given["summary"], class_="pl-heading"),
        command_line(text, is_reached=True),
    )


def _answers(responses: Mapping[str, Mapping[str, Any]]) -> Iterator[Html]:
    for status, said in responses.items():
        yield row(status, tag("td", said["description"].replace("`", "")))


def _scrolling(content: Html) -> Html:
    """Let a table that is too wide scroll by itself, also with the keyboard."""
    return tag(
        "div",
        content,
        class_="pl-scroll",
        role="group",
        aria_label="Table",
        tabindex="0",
    )
