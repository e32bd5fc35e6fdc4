"""How vLLM is started for a plan: command, environment variables and model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.confirming import server
from planner.confirming.devices import Devices
from planner.confirming.installation import Installation
from planner.confirming.options import RunOptions
from planner.confirming.process import BESIDE_VLLM
from planner.engine import environment
from planner.engine.flags import flags, python_values
from planner.engine.releases import Release, number_of
from planner.engine.releases.change import Change
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.models.files import ModelFiles
from planner.models.sources.finding import model_files
from planner.planning.result import Plan
from planner.user_files import user_path
from planner.values import frozen

PROBE = "planner_memory_probe.MemoryProbe"
_FIRST_PROMPT = (1, 5, 7)
FIRST_ANSWER = 8
_DEBUG = Change(
    until=(0, 12),
    what="Workers keep few figures; their log has more at level DEBUG.",
)
_SET_BY_US = (
    *("load_format", "worker_extension_cls", "skip_tokenizer_init"),
    *("served_model_name", "disable_log_stats", "host", "port"),
)


@frozen
class Launch:
    """A command that starts vLLM, with remarks for the reader."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    port: int | None
    """The server's port; None for the LLM class."""
    has_tokenizer: bool
    notes: tuple[str, ...] = ()


def prepare(  # noqa: PLR0913 - what a start depends on
    plan: Plan,
    options: RunOptions,
    found: Installation,
    devices: Devices,
    scratch: Path,
    load_task: Mapping[str, int] | None,
) -> Launch:
    """Write the files that vLLM needs into `scratch` and return how to start it.

    Raises:
        PlannerError: if the model or the port cannot be used.
    """
    variables, notes = variables_of(
        planned=dict(plan.env),
        vllm_version=plan.vllm_version,
        token=given_arguments(plan.settings).get("hf_token"),
        own=devices.environment,
        folders=[BESIDE_VLLM],
        scratch=scratch,
    )
    model, has_tokenizer = _model(plan, options, scratch)
    arguments = _arguments(plan, options, has_tokenizer=has_tokenizer)
    words: tuple[str, ...]
    port: int | None = None
    if plan.entrypoint == "serve":
        port = server.free_port(options.port)
        ours = {
            "served_model_name": server.MODEL,
            "host": server.HOST,
            "port": port,
            # The metrics are read many times a second, which would fill the log.
            "disable_uvicorn_access_log": True,
        }
        release = Release(number_of(plan.vllm_version))
        words = ("serve.py", "serve", model, *flags(arguments | ours, release))
    else:
        task = {
            "arguments": {"model": model, **_for_python(plan, arguments)},
            "prompt": first_prompt(plan),
            "max_tokens": FIRST_ANSWER,
            "load": load_task,
        }
        file = scratch / "task.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        words = ("offline.py", str(file))
    program, *rest = words
    return Launch(
        command=(found.python, str(BESIDE_VLLM / program), *rest),
        environment=variables,
        port=port,
        has_tokenizer=has_tokenizer,
        notes=notes,
    )


def first_prompt(plan: Plan) -> list[int] | None:
    """Return token ids of a first prompt; None for a model that does not generate."""
    if plan.model is None or plan.model.is_pooling:
        return None
    return [token % plan.model.vocab_size for token in _FIRST_PROMPT]


def _arguments(
    plan: Plan, options: RunOptions, *, has_tokenizer: bool
) -> dict[str, Any]:
    """Return the planned arguments as given, and those that measuring adds."""
    given = given_arguments(plan.settings)
    planned = {name: value for name, value in given.items() if name not in _SET_BY_US}
    if options.weights == "dummy":
        planned["load_format"] = "dummy"
    elif "load_format" in given:
        planned["load_format"] = given["load_format"]
    if not has_tokenizer:
        planned["skip_tokenizer_init"] = True
    return planned | {"worker_extension_cls": PROBE}


def _for_python(plan: Plan, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the LLM class accepts them: values, not strings."""
    given = python_values(arguments, Release(number_of(plan.vllm_version)))
    given["disable_log_stats"] = False
    if plan.entrypoint == "engine" and plan.resolved is not None:
        # The LLM class has other defaults than the engine on its own.
        given["max_num_batched_tokens"] = plan.resolved.max_num_batched_tokens
        given["max_num_seqs"] = plan.resolved.max_num_seqs
    if (given.get("data_parallel_size") or 1) > 1:
        raise PlannerError(
            "The LLM class starts one engine only; confirm data_parallel_size="
            f'{given["data_parallel_size"]} with entrypoint="serve".'
        )
    return given


def variables_of(  # noqa: PLR0913 - what a process's environment consists of
    *,
    planned: Mapping[str, str],
    vllm_version: str,
    token: object,
    own: Mapping[str, str],
    folders: Sequence[Path],
    scratch: Path,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return this process's environment for vLLM, and notes.

    Args:
        planned: vLLM's variables; others of this process are left out.
        vllm_version: the release.
        token: for the Hub, if one is given.
        own: variables that this start sets.
        folders: places of modules for vLLM's Python.
        scratch: for sockets.
    """
    given = dict(os.environ)
    decisive = (*environment.KNOWN, *environment.UNCOUNTED)
    left_out = [name for name in decisive if name in given and name not in planned]
    for name in left_out:
        del given[name]
    places = [*map(str, folders), *filter(None, [given.get("PYTHONPATH")])]
    level = "DEBUG" if Release(number_of(vllm_version)).has(_DEBUG) else "INFO"
    given = {"VLLM_LOGGING_LEVEL": level, **given}
    if isinstance(token, str):  # a command line can be read by other users
        given["HF_TOKEN"] = token
    variables = {
        **given,
        **own,
        **planned,
        "PYTHONPATH": os.pathsep.join(places),
        # vLLM's compiler starts Pythons that would look for modules in the folder that
        # this one was started in, before their own. Python 3.10 has no such variable.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_RPC_BASE_PATH": str(scratch),
    }
    notes = (
        f"{', '.join(left_out)}: set here but not in the plan, and so left out. "
        "env= plans with variables.",
    )
    return variables, notes if left_out else ()


def write_model(files: ModelFiles, scratch: Path) -> Path:
    """Write a model's configuration into a folder of its name and return it."""
    folder = scratch / (files.name.rstrip("/").rpartition("/")[2] or "model")
    folder.mkdir()
    parts = {
        "config.json": files.config,
        "hf_quant_config.json": files.hf_quant_config,
        "preprocessor_config.json": files.preprocessor_config,
        "modules.json": (files.modules or {}).get("modules"),
    }
    for name, content in parts.items():
        if content is not None:
            text = json.dumps(content, default=dict)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def _model(plan: Plan, options: RunOptions, scratch: Path) -> tuple[str, bool]:
    """Return the model's name or folder for vLLM, and whether it has a tokenizer.

    With random weights the configuration is enough, and the planner has it: vLLM gets
    it as a folder, so that it starts without a network or an account. A model with code
    of its own, or with images or audio as inputs, needs its other files.
    """
    local = local_folder(plan.name)
    if local is not None:
        return str(local), _has_tokenizer(local)
    files = _files(plan)
    if options.weights == "real" or _needs_repository(plan, files):
        return files.name, True
    return str(write_model(files, scratch)), False


def _files(plan: Plan) -> ModelFiles:
    try:
        return model_files(plan.name)
    except PlannerError as error:
        raise PlannerError(f"vLLM cannot be started for this plan: {error}") from error


def local_folder(name: str) -> Path | None:
    """Return the folder of a model on this machine; None for a name on the Hub.

    Raises:
        PlannerError: for a folder without a configuration.
    """
    path = user_path(name)
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        return None
    if not any((folder / file).is_file() for file in ("config.json", "params.json")):
        raise PlannerError(
            f"{folder} holds no config.json, so vLLM cannot start from it. Give the "
            "folder of a model, or its name on the Hub."
        )
    return folder.resolve()


def _has_tokenizer(folder: Path) -> bool:
    names = (
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "tekken.json",
    )
    return any((folder / name).is_file() for name in names)


def _needs_repository(plan: Plan, files: ModelFiles) -> bool:
    """Return whether a start needs more than the configuration."""
    run = plan.ranks[0].profile_run if plan.ranks else None
    has_towers = run is not None and bool(run.towers)
    return has_towers or "auto_map" in files.config or bool(files.gguf_tensors)
