"""What a link may hold, by name.

A link comes from anywhere, and the page that opens it may offer to start vLLM. So it
carries what decides memory, never what names a file, a place in a network, a secret or
code.
"""

from __future__ import annotations

from planner.engine import EngineSettings
from planner.engine_args import GONE, SWITCHED_OFF, WITHOUT_EFFECT
from planner.environment import KNOWN

ENVIRONMENT = KNOWN
"""The environment variables a link may set: those that decide memory."""

TRUST = "trust_remote_code"

KEPT_OUT = {
    "allowed_local_media_path": "names a folder",
    "allowed_media_domains": "names places in a network",
    "code_revision": "names code",
    "data_parallel_address": "names a place in a network",
    "default_mm_loras": "names folders",
    "download_dir": "names a folder",
    "generation_config": "may name a folder",
    "hf_config_path": "names a folder",
    "hf_token": "is a secret",
    "io_processor_plugin": "names code",
    "kv_events_config": "names a place in a network",
    "kv_transfer_config": "may name code and places in a network",
    "load_format": "decides how files are read",
    "log_config_file": "names a file",
    "logging_config": "names files",
    "logits_processors": "names code",
    "master_addr": "names a place in a network",
    "model_loader_extra_config": "may name files",
    "otlp_traces_endpoint": "names a place in a network",
    "profiler_config": "names a folder",
    "reasoning_parser_plugin": "names code",
    "revision": "names what is loaded",
    "spec_model": "may name a folder",
    "speculative_config": "may name a folder",
    "tokenizer": "may name a folder",
    "tokenizer_mode": "may name code",
    "tokenizer_revision": "names what is loaded",
    "config_format": "decides how files are read",
    "watchdog_config": "may name files",
    "worker_extension_cls": "names code",
    TRUST: "allows a model to run code of its own: decide about it on the page",
}
"""Engine arguments that a link does not set, and why."""

CARRIED = (
    frozenset(EngineSettings.__dataclass_fields__) - {"others"}
    | WITHOUT_EFFECT
    | frozenset(SWITCHED_OFF)
    | frozenset(GONE)
) - frozenset(KEPT_OUT)
"""Engine arguments that a link may set."""

FOREIGN = ("token", "voila-template", "voila-theme")
"""What the servers of pages add to an address for themselves."""

MOST = 2**50
"""The largest number of any argument: a thousand terabytes."""
