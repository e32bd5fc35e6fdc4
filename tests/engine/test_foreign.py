"""What a stranger must not decide of a start: one list for links and for Run."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.arguments import ARGUMENTS, Kind
from planner.engine.environment import variables
from planner.engine.foreign import SAFE_VARIABLES, questions, safe_part
from planner.engine.server import SERVER_FLAGS
from planner.export.links import is_carried

HARMFUL = {
    "tool_parser_plugin": "/tmp/x.py",
    "reasoning_parser_plugin": "/tmp/x.py",
    "middleware": ["a.b"],
    "config": "/tmp/x.yaml",
    "chat_template": "/tmp/x.jinja",
    "uds": "/tmp/x",
    "ssl_keyfile": "/tmp/x",
    "worker_cls": "a.b",
    "worker_extension_cls": "a.b",
    "scheduler_cls": "a.b",
    "logits_processors": ["a.b"],
    "io_processor_plugin": "a",
    "trust_remote_code": True,
    "load_format": "a_plugin_of_theirs",
    "tokenizer_mode": "a_plugin_of_theirs",
    "distributed_executor_backend": "a.b",
    "spec_model": "a.b",
    "allowed_local_media_path": "/",
    "otlp_traces_endpoint": "http://a",
    "data_parallel_address": "10.0.0.1",
    "logging_config": {"version": 1},
    "additional_config": {"a": 1},
    "model_loader_extra_config": {"a": 1},
    "kv_transfer_config": {"kv_connector_module_path": "a.b"},
    "compilation_config": {"backend": "a.b"},
    "attention_config": '{"evil": "a.b"}',
    "structured_outputs_config": {"reasoning_parser_plugin": "/tmp/x.py"},
    "speculative_config": {"method": "custom_class", "model": "a.b.C"},
    "mm_processor_kwargs": {"trust_remote_code": True},
    "mamba_config": {"a": "b"},
}
IN_TABLES = {
    "compilation_config": (
        *("backend", "inductor_passes", "inductor_compile_config", "cache_dir"),
        *("local_cache_dir", "debug_dump_path", "Backend", "inductor-passes"),
        *("mode.backend", "pass_config.evil", "no_such_key"),
    ),
    "structured_outputs_config": ("reasoning_parser_plugin",),
    "limit_mm_per_prompt": ("image.evil",),
    "mm_processor_kwargs": ("trust_remote_code", "cache_dir", "size.evil"),
}
"""Keys that name code or a file, or that nobody knows; dotted: a key with a dot."""
VARIABLES = {
    "VLLM_PLUGINS": "evil",
    "VLLM_NCCL_SO_PATH": "/tmp/x.so",
    "VLLM_LOGGING_CONFIG_PATH": "/tmp/x.json",
    "VLLM_CONFIG_ROOT": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    "VLLM_RPC_BASE_PATH": "/tmp",
    "VLLM_NO_RELEASE_KNOWS_IT": "1",
    "VLLM_SKIP_P2P_CHECK": "/tmp/x",
    "LD_PRELOAD": "/tmp/x.so",
    "PYTHONPATH": "/tmp",
    "PATH": "/tmp",
    "HF_HOME": "/tmp",
}
HARMLESS = {
    "max_model_len": 4096,
    "enforce_eager": True,
    "seed": 1,
    "tool_call_parser": "hermes",
    "enable_auto_tool_choice": True,
    "port": 8000,
    "host": "0.0.0.0",
    "tokenizer": "org/name",
    "revision": "main",
    "load_format": "safetensors",
    "distributed_executor_backend": "ray",
    "compilation_config": {"mode": 3, "pass_config": {"enable_sp": True}},
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 2},
    "limit_mm_per_prompt": {"image": {"count": 1, "width": 512}},
    "trust_remote_code": False,
    "kv_transfer_config": None,
}
HARMLESS_FLAGS = {
    *("allowed_headers", "allowed_methods", "allowed_origins"),
    *("anthropic_disabled_thinking_effort", "api_key", "api_server_count"),
    *("chat_template_content_format", "cohere_format", "default_chat_template_kwargs"),
    *("cuda_graph_sizes", "data_parallel_supervisor_port", "device"),
    "disable_access_log_for_endpoints",
    *(f"dp_supervisor_probe_{one}" for one in ("failure_threshold", "interval_s")),
    *("dp_supervisor_probe_timeout_s", "eplb_step_interval", "eplb_window_size"),
    *("fingerprint_mode", "fingerprint_value", "grpc_port", "guided_decoding_backend"),
    *("h11_max_header_count", "h11_max_incomplete_event_size", "host"),
    *("long_lora_scaling_factors", "lora_extra_vocab_size", "max_log_len"),
    *("max_long_partial_prefills", "max_num_partial_prefills", "max_prompt_adapters"),
    *("max_prompt_adapter_token", "max_seq_len_to_capture", "num_lookahead_slots"),
    *("num_redundant_experts", "num_scheduler_steps", "override_attention_dtype"),
    *("override_pooler_config", "port", "preemption_mode", "reasoning_effort_map"),
    *("response_role", "root_path", "rope_scaling", "rope_theta", "ssl_cert_reqs"),
    *("scheduler_delay_factor", "ssl_ciphers", "sse_keep_alive_interval", "task"),
    *("tokenizer_pool_size", "tool_call_parser", "tool_strict_level"),
    *("uvicorn_log_level", "tool_call_parser_plugin"),
}
"""Flags of the server with a value of which a start does not ask. `host` and `port` are
the run's own; `tool_call_parser_plugin` no release takes."""
NAMING = {
    *("path", "dir", "folder", "file", "files", "url", "address", "host"),
    *("cls", "class", "plugin", "module", "code", "passes"),
}


def test_a_start_asks_about_what_may_run_code_or_open_something() -> None:
    """Each by itself is named with its value."""
    silent = [
        name for name, value in HARMFUL.items() if not questions({name: value}, {})
    ]
    silent += [
        name for name, value in VARIABLES.items() if not questions({}, {name: value})
    ]

    assert [] == silent
    assert "LD_PRELOAD=/tmp/x.so may name code or a file" in questions({}, VARIABLES)
    assert '--middleware ["a.b"] names code' in questions(HARMFUL, {})


def test_a_start_does_not_ask_about_the_rest() -> None:
    """Who is asked about everything reads nothing."""
    env = {"CUDA_VISIBLE_DEVICES": "0", "VLLM_SKIP_P2P_CHECK": "1", "HF_TOKEN": "hf_x"}

    assert () == questions(HARMLESS, env)


def test_a_table_keeps_its_safe_keys_alone() -> None:
    """In any spelling, at any depth, in lists, and with a dot in the key."""
    wrong = []
    for name, keys in IN_TABLES.items():
        for key in keys:
            outer, _, inner = key.partition(".")
            tables = [{key: "a.b"}, *([{outer: {inner: "a.b"}}] if inner else [])]
            wrong += [
                (name, table)
                for table in tables
                if safe_part(name, table)[0] is not None
            ]
    nested = {"mode": {"a": "b"}, "custom_ops": [{"a": "b"}], "splitting_ops": [["a"]]}

    assert [] == wrong
    assert (None, tuple(nested)) == safe_part("compilation_config", nested)
    assert (None, ()) == safe_part("compilation_config", '{"backend": "a.b"}')
    assert (None, ()) == safe_part("seed", {"a": "b"})


def test_every_table_is_kept_out_or_says_its_safe_keys() -> None:
    """None of them is a place, and every key with a control is one."""
    tables = {name: one for name, one in ARGUMENTS.items() if one.kind is Kind.TABLE}
    pytest.importorskip("traitlets", reason="the extra `notebook` brings widgets")
    from planner.app.widgets.features import limits, processor_settings

    controls = {part.field.name for part in (*limits(), *processor_settings())}
    controls -= {"mm_processor_kwargs.longest_edge"}
    listed = {f"{name}.{key}" for name, one in tables.items() for key in one.safe_keys}

    assert [] == [
        n for n, one in tables.items() if not one.kept_out and not one.safe_keys
    ]
    assert [] == [n for n in ARGUMENTS if ARGUMENTS[n].safe_keys and n not in tables]
    assert set() == controls - listed
    assert [] == [key for key in listed if NAMING & {*re.split(r"[._]", key)}]


def test_every_flag_of_the_server_is_asked_about_or_known_as_harmless() -> None:
    """A new one has to be read first; switches have no name to give."""
    named = {name for name, flag in SERVER_FLAGS.items() if flag.has_value}
    asked = {name for name, flag in SERVER_FLAGS.items() if flag.kept_out}

    assert named == asked | (HARMLESS_FLAGS & named)
    assert set() == asked & HARMLESS_FLAGS
    assert HARMLESS_FLAGS <= named


@given(
    st.sampled_from(sorted(variables())),
    st.text(min_size=1).filter(lambda t: not t.isdecimal()),
)
def test_a_number_is_all_that_an_unread_variable_may_say(name, value) -> None:
    """Of vLLM's own variables that nobody has called safe."""
    asks = bool(questions({}, {name: f"/{value}"}))

    assert asks != (name in SAFE_VARIABLES)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["backend", "mode", "pass_config", "enable_sp", "a.b", "image"]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(filter(is_carried, ARGUMENTS))), VALUES)
def test_what_a_link_keeps_asks_nothing(name, value) -> None:
    """Links and starts agree."""
    kept, _ = safe_part(name, value)

    assert () == questions({name: kept}, {})


@pytest.mark.parametrize("value", ["a\x1b[2Jb", "a\nb"])
def test_a_value_does_not_move_the_cursor(value) -> None:
    """It is shown on a terminal."""
    assert all(
        one.isprintable() for one in questions({"middleware": value}, {"A": value})
    )
