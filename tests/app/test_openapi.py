"""The OpenAPI document of `/api/plan` says what the app answers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import planner
from planner.app import questions
from planner.app.voila import openapi, plan_answers
from planner.export import json_schema

jsonschema = pytest.importorskip("jsonschema")

PLAN = planner.plan("Qwen/Qwen3-8B", gpu="L4").to_dict()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """As a program gets it."""
    return json.loads(json.dumps(openapi.document("/planner/")))


def schema_of(document: dict[str, Any], name: str) -> Any:
    """What checks a value of that name."""
    whole = {
        "$ref": f"#/components/schemas/{name}",
        "components": document["components"],
    }
    return jsonschema.Draft202012Validator(whole)


def test_it_is_openapi_3_1(document) -> None:
    """By the specification's own schema, with every reference resolved."""
    validator = pytest.importorskip("openapi_spec_validator")

    validator.validate(document)
    assert "3.1.0" == document["openapi"]
    assert planner.__version__ == document["info"]["version"]
    assert [{"url": "/planner"}] == document["servers"]


def test_its_plan_is_the_published_schema(document) -> None:
    """Field by field; a plan passes it, and one without a field does not."""
    published = json.loads(json_schema())
    plan = schema_of(document, "Plan")

    assert set(published["properties"]) == set(
        document["components"]["schemas"]["Plan"]["properties"]
    )
    assert plan.is_valid(PLAN)
    assert not plan.is_valid({n: v for n, v in PLAN.items() if n != "fits"})


def test_its_question_is_the_one_that_is_read(document) -> None:
    """The same entries; the examples are questions that have a plan."""
    question = schema_of(document, "Question")
    said = document["components"]["schemas"]["Question"]["properties"]
    content = document["paths"]["/api/plan"]["post"]["requestBody"]["content"]
    examples = [
        one["value"] for one in content["application/json"]["examples"].values()
    ]

    assert set(said) == {*questions.ENTRIES, *questions.OF_TEXT}
    assert "max_model_len" in said["engine_args"]["properties"]
    assert len(examples) == 2
    for example in examples:
        question.validate(example)
        assert 200 == plan_answers.answer(json.dumps(example))[0]
    assert not question.is_valid({"gpu": "L4"})


def test_its_error_is_the_one_that_is_sent(document) -> None:
    """With a sentence and a place."""
    status, said = plan_answers.answer('{"model": "Qwen/Qwen3-8B", "gpu": "L5"}')
    responses = document["paths"]["/api/plan"]["post"]["responses"]

    schema_of(document, "Error").validate(said)
    assert str(int(status)) in responses


def test_its_page_loads_nothing_and_runs_nothing(document) -> None:
    """No script, no other file; every entry and every status is on it."""
    page = openapi.page_html(document)
    shown = set(re.findall(r"<th scope='row'>(?:<code>)?([\w]+)", page))
    post = document["paths"]["/api/plan"]["post"]

    assert not re.search(r"<script|\son\w+=|\ssrc=|@import|url\(", page)
    assert ["/planner/api/openapi.json"] == re.findall(r"<a href='([^']+)'", page)
    assert {*questions.ENTRIES, *post["responses"], *PLAN} <= shown
    assert "curl" in page
