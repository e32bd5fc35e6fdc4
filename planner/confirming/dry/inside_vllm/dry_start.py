"""Start vLLM's engine core on the false GPU, once for each pipeline stage, and report.

usage: dry_start.py TASK.json [STAGE]

Without a stage this program starts itself for each one: the stages before the last stop
after their profile run and leave their KV cache specifications for the last, which goes
on to the end. Results are lines of standard output, as those of `offline.py`.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from offline import engine_figures, report

_USAGES = {
    "serve": "OPENAI_API_SERVER",
    "llm": "LLM_CLASS",
    "engine": "ENGINE_CONTEXT",
}


def load_false_gpu(folder: str) -> None:
    """Load the stand-ins for CUDA's libraries before anything that needs CUDA.

    The dynamic linker finds a loaded library by its name, and its symbols first, so
    nothing has to be set for other processes.
    """
    order = Path(folder, "load-order").read_text(encoding="utf-8").split()
    for name in order:
        ctypes.CDLL(str(Path(folder, name)), mode=ctypes.RTLD_GLOBAL)


def main(task: dict[str, Any], stage: int | None, file: str) -> int:
    """Run all stages, or one."""
    stages = range(task["stages"])
    if stage is None and len(stages) > 1:
        for number in reversed(stages):
            # The first stage is the last to start: vLLM's own rank 0.
            words = [sys.executable, __file__, file, str(number)]
            status = subprocess.run(words, check=False).returncode
            if status:
                return status
        return 0
    _start(task, stage or 0)
    return 0


def _start(task: dict[str, Any], stage: int) -> None:
    put_in_place(task)
    try:
        _engine(task, _config(task), stage)
    except Exception as error:
        import dry_faults

        reason = dry_faults.fault(error, is_named=task["is_named"])
        if reason is not None:
            report("fault", text=reason)
        raise


def put_in_place(task: dict[str, Any]) -> None:
    """Put the false GPU and the hooks in place, before vLLM is imported."""
    load_false_gpu(task["libraries"])
    import dry_encoders  # noqa: F401 - registers its hooks
    import dry_hooks
    import dry_releases  # noqa: F401 - the same

    if task["is_filmed"]:
        import dry_film  # noqa: F401 - registers its hook
    dry_hooks.after_import("vllm.v1.worker.gpu_worker")(partial(_watch_worker, task))
    dry_hooks.install()


def _config(task: dict[str, Any]) -> Any:
    """Return vLLM's configuration; a model with encoders gets the files it needs.

    A model that only reads text starts without a tokenizer. Where the files of encoders
    cannot be made, the model starts with them, and they are left out of the profile.
    """
    import dry_encoders
    import dry_files
    from vllm.transformers_utils import repo_utils

    folder = Path(task["arguments"]["model"])
    _without_missing_code(folder, task["arguments"])
    is_whole = dry_files.is_whole(folder)
    try:
        if (config := _without_tokenizer(task)) is not None:
            encoders = getattr(config.model_config, "multimodal_config", None)
            if encoders is None or getattr(encoders, "language_model_only", False):
                return config
        dry_files.write(folder, {})
        repo_utils.list_repo_files.cache_clear()  # there are more now
        config = _created(task)
        if not is_whole and not dry_files.is_known(folder):
            dry_encoders.check(config)
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        if is_whole or not dry_encoders.lacks_files(error):
            raise
        report("note", text=dry_encoders.leave_out(error))
        dry_files.write_tokenizer(folder)
        config = _created(task, skip_tokenizer_init=True)
    return config


def _without_tokenizer(task: dict[str, Any]) -> Any:
    """Return vLLM's configuration; None where it may want the files of encoders.

    Some models make inputs while they are configured (InternVL with videos).
    """
    import dry_files

    try:
        return _created(task, skip_tokenizer_init=True)
    except ValueError:
        if not dry_files.is_known(Path(task["arguments"]["model"])):
            raise
        return None


def _created(task: dict[str, Any], **more: Any) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    usage = UsageContext[_USAGES[task["entrypoint"]]]
    return EngineArgs(**task["arguments"], **more).create_engine_config(usage)


def _without_missing_code(folder: Path, arguments: dict[str, Any]) -> None:
    """Read a configuration whose code is not at hand by its fields alone.

    Only where the user allows the code: else vLLM refuses the model, as it should.
    """
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    is_trusted = bool(arguments.get("trust_remote_code"))
    module = str((config.get("auto_map") or {}).get("AutoConfig", "")).split(".")[0]
    if not module or not is_trusted or (folder / f"{module}.py").exists():
        return
    import dry_configs

    dry_configs.ignore_code()
    report(
        "note",
        text="The configuration's own code is not at hand: its fields were read as "
        "config.json has them, without the defaults of that code.",
    )


def _watch_worker(task: dict[str, Any], module: Any) -> None:
    """Let workers report their model, and count what a driver would take.

    That is the planner's estimate. Kernels and buffers of NCCL come with the first
    steps, so after loading; graphs are estimated by vLLM from what the device has left,
    where only PyTorch's share shows.
    """
    import dry_trace
    import dry_tree

    worker = module.Worker
    load, begin = worker.load_model, worker.init_device

    def init_device(self: Any) -> Any:
        _check_kernels()
        result = begin(self)
        estimate = getattr(self.model_runner, "profile_cudagraph_memory", None)
        graphs = _driver(task, self).get("graphs", 0)
        if estimate is not None:
            self.model_runner.profile_cudagraph_memory = lambda: max(estimate(), graphs)
        return result

    def load_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(self, *args, **kwargs)
        if self.rank == 0:
            report("tree", **dry_tree.tree(self))
            if task["is_traced"]:
                dry_trace.watch(self.model_runner)
        core = ctypes.CDLL("libplannergpu.so", mode=ctypes.RTLD_GLOBAL)
        core.device_charge(ctypes.c_int64(_driver(task, self).get("non_torch", 0)))
        return result

    worker.init_device, worker.load_model = init_device, load_model
    if task["is_filmed"]:
        import dry_film

        dry_film.watch(worker, lambda one: _driver(task, one).get("graphs", 0))


def _check_kernels() -> None:
    """End with PyTorch's words where its build is for newer GPUs alone."""
    import dry_faults
    import torch

    major, minor = torch.cuda.get_device_capability()
    built = [int(one[3:].rstrip("af")) for one in torch.cuda.get_arch_list()]
    if built and 10 * major + minor < min(built):
        raise RuntimeError(dry_faults.NO_KERNELS)


def _driver(task: dict[str, Any], worker: Any) -> dict[str, int]:
    """Return what is assumed for the pipeline stage of a worker."""
    stages, parallel = task["driver"], worker.parallel_config
    in_stage = parallel.world_size // parallel.pipeline_parallel_size
    stage = worker.rank % parallel.world_size // in_stage
    return stages[stage] if stage < len(stages) else {}


def _engine(task: dict[str, Any], config: Any, stage: int) -> None:
    import dry_ranks
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.abstract import Executor

    if task["in_one_process"]:
        executor = dry_ranks.one_process_executor(
            config, stage, Path(task["folder"]), is_last=stage == 0
        )
    else:
        executor = Executor.get_class(config)
    try:
        core = EngineCore(config, executor, log_stats=False)
    except dry_ranks.StageIsDone:
        return
    workers = core.model_executor.collective_rpc("planner_figures")
    report("figures", workers=_distinct(workers), engine=engine_figures(config))
    if task["is_filmed"]:
        import dry_film

        dry_film.develop()
    if not task["in_one_process"]:
        core.shutdown()
    os._exit(0)  # an orderly end of PyTorch takes seconds, and nothing is to be kept


def _distinct(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each rank that ran."""
    return list({worker["rank"]: worker for worker in workers}.values())


# Workers are spawned, which imports this file again by another name.
if __name__ == "__main__":
    given = sys.argv[1]
    wanted = int(sys.argv[2]) if sys.argv[2:] else None
    sys.exit(main(json.loads(Path(given).read_text(encoding="utf-8")), wanted, given))
elif __name__ == "__mp_main__":
    put_in_place(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
