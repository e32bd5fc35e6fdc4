"""The published schema of a plan as plain values, and that it only grows.

`tests/conftest.py` holds every plan of every test to it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.planning.as_dict import SCHEMA_VERSION
from tests.conftest import ROOT

SCHEMA = json.loads((ROOT / "planner/data/plan.schema.json").read_text("utf-8"))
PUBLISHED = Path(__file__).parents[1] / "data" / "plan-schema-1.0.txt"
"""What the first version has, a line each: the place of a field, and its types."""


def fields(schema: Any, place: str = "") -> Iterator[str]:
    """Yield the place and the types of each field of a schema."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    for choice in schema.get("anyOf", [schema]):
        for name, value in choice.get("properties", {}).items():
            inner = f"{place}.{name}".lstrip(".")
            yield f"{inner}: {types(value)}"
            yield from fields(value, inner)
        if "items" in choice:
            yield from fields(choice["items"], f"{place}[]")


def types(schema: Any) -> str:
    """Return the types that a field may have, sorted."""
    kinds = schema.get("type", "object")
    chosen = [types(one) for one in schema.get("anyOf", ())]
    if "const" in schema or "enum" in schema:
        kinds = "string"
    return " ".join(sorted(chosen or ([kinds] if isinstance(kinds, str) else kinds)))


def test_the_schema_is_one() -> None:
    """Of draft 7, which every validator knows."""
    jsonschema = pytest.importorskip("jsonschema")

    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_a_plan_says_its_version() -> None:
    """The schema has the same."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4")

    assert plan.to_dict()["schema_version"] == SCHEMA_VERSION
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_no_field_goes_and_none_changes_within_a_version() -> None:
    """A program that reads 1.0 reads every 1.x; what breaks it needs a 2.0."""
    published = PUBLISHED.read_text("utf-8").splitlines()

    assert SCHEMA_VERSION.startswith("1.")
    assert [] == sorted(set(published) - set(fields(SCHEMA)))


def test_a_new_field_raises_the_second_number() -> None:
    """As long as it is 1.0, there are only those of 1.0."""
    published = PUBLISHED.read_text("utf-8").splitlines()

    assert (SCHEMA_VERSION == "1.0") == (set(published) == set(fields(SCHEMA)))


def test_every_object_says_all_its_fields() -> None:
    """An unknown key fails, and a known one is never left out."""

    def objects(value: Any) -> Iterator[dict[str, Any]]:
        for one in value if isinstance(value, list) else value.values():
            if isinstance(one, dict | list):
                if isinstance(one, dict) and "properties" in one:
                    yield one
                yield from objects(one)

    found = [SCHEMA, *objects(SCHEMA)]
    named = [one for one in found if isinstance(one.get("properties"), dict)]

    assert len(named) >= 10
    for one in named:
        if one.get("type") in ("object", ["object", "null"]):
            assert one["additionalProperties"] is False
            assert sorted(one["properties"]) == sorted(one["required"])


def test_a_plan_without_a_field_is_not_one() -> None:
    """The check of every test can fail."""
    fastjsonschema = pytest.importorskip("fastjsonschema")
    whole = json.loads(planner.export.json(planner.plan("Qwen/Qwen3-8B", gpu="L4")))
    del whole["inputs"]
    validated = fastjsonschema.compile(SCHEMA)
    validated(whole)
    del whole["ranks"][0]["lines"][0]["why"]

    with pytest.raises(fastjsonschema.JsonSchemaException, match="why"):
        validated(whole)
