"""Recording a release's parser: what is kept of each kind of flag."""

from __future__ import annotations

import argparse
import json

from tests.recorded_parser import RELEASES, reader, recorded
from tools.record_parser import flag, type_name


def test_a_switch_is_kept_with_both_its_sides():
    """--x and --no-x, and where it goes."""
    parser = argparse.ArgumentParser()
    action = parser.add_argument(
        "--enable-x", action=argparse.BooleanOptionalAction, default=None
    )

    assert {
        "flags": ["--enable-x"],
        "off": ["--no-enable-x"],
        "dest": "enable_x",
        "action": "boolean",
    } == flag(action, parser)


def test_a_flag_of_several_words_is_kept_with_its_type_and_choices():
    """How many words, which, and what they become."""
    parser = argparse.ArgumentParser()
    action = parser.add_argument(
        "--sizes", "-s", type=int, nargs="+", choices=[1, 2], default=(1,)
    )

    assert {
        "flags": ["--sizes", "-s"],
        "dest": "sizes",
        "action": "store",
        "nargs": "+",
        "choices": [1, 2],
        "type": "int",
        "default": [1],
    } == flag(action, parser)


def test_a_type_is_named_by_what_it_reads():
    """vLLM wraps types in functions; their names stand for them."""

    def optional_type(return_type):
        def _optional_type(text):
            return None if text == "None" else return_type(text)

        return _optional_type

    def _parse_dataclass(cls):
        def parse_dataclass(text, cls=cls):
            return cls(text)

        return parse_dataclass

    assert "int" == type_name(int)
    assert "json" == type_name(json.loads)
    assert "optional:float" == type_name(optional_type(float))
    assert "json:Namespace" == type_name(_parse_dataclass(argparse.Namespace))


def test_every_recorded_type_can_be_rebuilt():
    """No flag of any release is read by guessing."""
    kinds = {
        found.get("type", "str")
        for release in RELEASES
        for found in recorded(release)["flags"]
    }

    assert all(callable(reader(kind)) for kind in kinds)


def test_each_record_is_of_the_release_it_is_called():
    """And holds the engine's arguments and the server's flags."""
    for release in RELEASES:
        assert release == recorded(release)["vllm"]
        assert "max_model_len" in recorded(release)["engine_arguments"]
        assert "port" in [found["dest"] for found in recorded(release)["flags"]]
