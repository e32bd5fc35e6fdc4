"""What a dry run starts: the task for vLLM's Python, its variables and its model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.confirming.dry import false_gpu
from planner.confirming.dry.result import DriverMemory
from planner.confirming.installation import Installation
from planner.confirming.launch import local_folder, variables_of, write_model
from planner.confirming.process import BESIDE_VLLM
from planner.engine.flags import python_values
from planner.engine.gpu import GPU
from planner.engine.releases import Release, number_of
from planner.engine.settings import EngineSettings, given_arguments
from planner.errors import PlannerError
from planner.memory.lines.outside import CUDA_CONTEXT
from planner.models.architecture import ModelArchitecture
from planner.models.sources.finding import model_files
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.surroundings import cache_folder
from planner.values import frozen

_PROBE = "planner_memory_probe.MemoryProbe"
_HERE = Path(__file__).parent / "inside_vllm"
_PROGRAM = _HERE / "dry_start.py"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".msgpack", ".h5")
_SET_BY_US = (
    *("load_format", "worker_extension_cls", "served_model_name", "host", "port"),
    *("disable_log_stats", "skip_tokenizer_init"),
)
_MISTRALS = "consolidated.safetensors"
_NO_WEIGHTS = (2).to_bytes(8, "little") + b"{}"
"""A file of safetensors without tensors: the length of its header, and the header."""
_KEY_DIGITS = 16
_STAND_IN = "Qwen/Qwen3-8B"
"""Whose driver memory is assumed for a model that the planner does not read."""

_LEFT_OUT: dict[str, dict[str, Any]] = {"hy_v3": {"route_norm": True}}
"""Fields that vLLM reads and copies of a published config.json leave out.

None changes memory. Source: vLLM 0.33.0 `models/hy_v3.py` HYV3MoEFused (renormalize).
"""


@frozen
class Prepared:
    """What all starts of one dry run share."""

    found: Installation
    inputs: Inputs
    """With the release and the GPU resolved."""
    gpu: GPU
    settings: EngineSettings
    libraries: Path
    estimate: Plan | None
    unplanned: str
    driver: tuple[DriverMemory, ...]
    has_real_workers: bool = False
    is_traced: bool = False
    is_filmed: bool = False
    notes: tuple[str, ...] = ()


def estimate_of(inputs: Inputs) -> tuple[Plan | None, str]:
    """Return the plan of the same start, or why there is none."""
    try:
        return inputs.plan(), ""
    except PlannerError as error:
        return None, str(error)


def driver_of(inputs: Inputs, estimate: Plan | None) -> tuple[DriverMemory, ...]:
    """Return what the planner expects a driver to take, for each pipeline stage."""
    if estimate is not None and estimate.ranks:
        return tuple(map(_of_driver, estimate.ranks))
    alike = ("tensor_parallel_size", "pipeline_parallel_size", "enforce_eager")
    engine_args = {
        name: value for name, value in inputs.engine_args.items() if name in alike
    }
    stand_in = replace(inputs, model=_STAND_IN, engine_args=engine_args, env={})
    plan, _why = estimate_of(stand_in)
    return () if plan is None else tuple(map(_of_driver, plan.ranks))


def _of_driver(rank: Any) -> DriverMemory:  # noqa: ANN401 - a RankMemory
    sizes = {line.name: max(0, line.size_bytes) for line in rank.lines}
    return DriverMemory(
        non_torch_bytes=sizes.get("non-torch", 0),
        cudagraph_bytes=sizes.get("CUDA graphs", 0),
        outside_bytes=sum(
            line.size_bytes for line in rank.outside if line.name == CUDA_CONTEXT
        ),
    )


def launch(
    prepared: Prepared, scratch: Path, caches: Path
) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Write the task into `scratch`; return the command, its variables and notes."""
    folder = _model_folder(prepared.inputs.model)
    layout = prepared.settings
    world = layout.gpus_total
    stages = layout.pipeline_parallel_size or 1
    caches.mkdir(parents=True, exist_ok=True)
    task = {
        "arguments": _arguments(prepared, folder),
        "entrypoint": prepared.inputs.entrypoint,
        "libraries": str(prepared.libraries),
        "folder": str(scratch),
        "in_one_process": not prepared.has_real_workers,
        "stages": 1 if prepared.has_real_workers else stages,
        "is_traced": prepared.is_traced,
        "is_filmed": prepared.is_filmed,
        "is_named": not _is_folder(prepared.inputs.model),
        "driver": [
            {"non_torch": one.non_torch_bytes, "graphs": one.cudagraph_bytes}
            for one in prepared.driver
        ],
    }
    file = scratch / "task.json"
    file.write_text(json.dumps(task), encoding="utf-8")
    variables, notes = variables_of(
        planned=prepared.inputs.env,
        vllm_version=prepared.found.version,
        token=given_arguments(layout).get("hf_token"),
        own=_own_variables(prepared, caches, devices=world),
        folders=[_HERE, BESIDE_VLLM],
        scratch=scratch,
    )
    return (prepared.found.python, str(_PROGRAM), str(file)), variables, notes


def _own_variables(prepared: Prepared, caches: Path, *, devices: int) -> dict[str, str]:
    """Return variables of the false GPU, and those that keep everything offline."""
    outside = max((one.outside_bytes for one in prepared.driver), default=0)
    recording = {"PLANNER_GPU_RECORD": "1"} if prepared.is_filmed else {}
    return {
        **recording,
        **false_gpu.variables(prepared.gpu, devices=devices, outside_bytes=outside),
        "PLANNER_GPU_LIBRARIES": str(prepared.libraries),
        # Triton and other builders find the false driver to link against.
        "TRITON_LIBCUDA_PATH": str(prepared.libraries),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Humming compiles its launcher in processes of its own, which no start needs.
        "HUMMING_DISABLE_PARALLEL_BUILD": "1",
        # Forked workers would lose the false libraries' state.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_CACHE_ROOT": str(caches),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "FLASHINFER_WORKSPACE_BASE": str(caches),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(devices))),
    }


def _arguments(prepared: Prepared, folder: Path) -> dict[str, Any]:
    given = given_arguments(prepared.settings)
    planned = {name: value for name, value in given.items() if name not in _SET_BY_US}
    release = Release(number_of(prepared.found.version))
    values = python_values(planned, release)
    return {
        **values,
        **_with_draft(values.get("speculative_config")),
        "model": str(folder),
        "load_format": "dummy",
        "disable_log_stats": True,
        "worker_extension_cls": _PROBE,
    }


def _with_draft(asked: object) -> dict[str, Any]:
    """Return speculative_config with the folder of its model: vLLM is offline."""
    name = asked.get("model") if isinstance(asked, Mapping) else None
    if not isinstance(asked, Mapping) or not isinstance(name, str) or "/" not in name:
        return {}
    return {"speculative_config": {**asked, "model": str(_model_folder(name))}}


def _model_folder(model: str | ModelArchitecture) -> Path:
    """Return a folder with the model's small files; vLLM may add to it.

    Its path depends on its content only: vLLM's compile cache depends on the path.
    """
    local = local_folder(model) if isinstance(model, str) else None
    if local is not None:
        return _linked(local)
    files = model_files(model) if isinstance(model, str) else model.files
    if files is None:
        raise PlannerError(
            f"{model} was not read from files, so vLLM cannot start it. Give "
            "its name, or the folder of its config.json."
        )
    if files.gguf_tensors:
        raise PlannerError(
            f"{files.name}: a dry run has random weights, and GGUF files have none. "
            "Plan it, or confirm the plan on a GPU."
        )
    left_out = _LEFT_OUT.get(str(files.config.get("model_type")), {})
    files = replace(files, config={**left_out, **files.config})
    sides = (files.hf_quant_config, files.preprocessor_config, files.modules)
    contents = (files.config, *filter(None, sides))
    place = _place(json.dumps([dict(c) for c in contents], sort_keys=True))
    return _made(place, lambda folder: write_model(files, folder))


def _is_folder(model: str | ModelArchitecture) -> bool:
    return isinstance(model, str) and local_folder(model) is not None


def _linked(local: Path) -> Path:
    """Return a folder with links to a model's small files."""
    small = [
        file
        for file in sorted(local.iterdir())
        if file.suffix not in _WEIGHTS and file.is_file()
    ]
    dates = [(file.name, file.stat().st_mtime_ns) for file in small]

    def link(folder: Path) -> Path:
        (folder / local.name).mkdir()
        for file in small:
            (folder / local.name / file.name).symlink_to(file)
        if _is_mistrals(local):
            (folder / local.name / _MISTRALS).write_bytes(_NO_WEIGHTS)
        return folder / local.name

    return _made(_place(f"{local}{dates}"), link)


def _is_mistrals(local: Path) -> bool:
    """Whether vLLM reads a folder's params.json, in Mistral's own format.

    Source: vLLM 0.33.0 transformers_utils/repo_utils.py is_mistral_model_repo: it knows
    the format by the weights' name, and weights are left out here.
    """
    if any(local.glob("consolidated*.safetensors")):
        return True
    return not (local / "config.json").is_file()


def _place(text: str) -> Path:
    key = hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]
    return cache_folder("dry-run") / "models" / key


def _made(place: Path, make: Callable[[Path], Path]) -> Path:
    """Return the folder inside of a place, made once; never half-made."""
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix="model-", dir=place.parent))
        make(beside)
        with contextlib.suppress(OSError):  # another start was faster
            beside.rename(place)
        shutil.rmtree(beside, ignore_errors=True)
    return next(one for one in place.iterdir() if one.is_dir())
