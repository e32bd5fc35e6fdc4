"""Bundled models beside what others publish of them."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from tools.check_catalogue import (
    RIGHT,
    Model,
    differences,
    files,
    formats,
    lengths,
    sizes,
)


def model(name: str, **facts: object) -> Model:
    """A model of 7 billion parameters and 32,768 tokens."""
    given: dict[str, object] = {
        "config": {},
        "max_model_len": 32_768,
        "quantization": None,
        "is_generative": True,
        "num_parameters": 7_000_000_000,
        "head_parameters": 500_000_000,
        "layer_parameters": 200_000_000,
        "row": {"id": name, "parameters": 7_000_000_000},
        **facts,
    }
    return Model(**given)  # type: ignore[arg-type]


def names(found: Iterable[tuple[str, str]]) -> list[str]:
    """Return who differs."""
    return [name for name, _text in found]


def test_every_bundled_model_is_as_published() -> None:
    """Lengths, formats, numbers of parameters and side files, with the names."""
    assert list(differences()) == []


def test_what_is_right_although_it_differs_has_a_reason() -> None:
    """Each is a sentence of its own."""
    assert all(len(reason) > 20 for reason in RIGHT.values())


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (lengths, [model("a/Chat", max_model_len=512)]),
        (lengths, [model("a/Chat-32k", config={"seq_length": 16_384})]),
        (lengths, [model("a/Chat-FP8", max_model_len=8192), model("b/Chat")]),
        (formats, [model("a/Chat-FP8")]),
        (formats, [model("a/Chat-BF16", quantization="fp8")]),
        (sizes, [model("a/Chat", num_parameters=6_000_000_000)]),
        (files, [model("a/Chat", row={"id": "a/Chat", "hf_quant_config": {}})]),
    ],
)
def test_what_differs_is_named(
    check: Callable[[list[Model]], Iterator[tuple[str, str]]], wrong: list[Model]
) -> None:
    """The first of each list, and only that."""
    assert names(check(wrong)) == [wrong[0].name]


def test_other_formats_heads_and_drafts_are_no_difference() -> None:
    """A tied head may be in the file twice, and a layer of a draft beside it."""
    alike = [
        model("a/Chat-FP8", quantization="fp8"),
        model("a/Chat"),
        model("a/Chat-32k", config={"seq_length": 32_768}),
        model("a/Tied", row={"id": "a/Tied", "parameters": 7_500_000_000}),
        model("a/Draft", row={"id": "a/Draft", "parameters": 7_200_000_000}),
        model("a/Whisper", max_model_len=448, is_generative=False),
    ]
    for check in (lengths, formats, sizes, files):
        assert names(check(alike)) == []
