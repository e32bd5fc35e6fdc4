"""Runs in vLLM's Python, on a Ray of its own: exported programs, as far as asked.

    python ray_programs.py ASKED ANSWERED

ASKED is JSON: the programs to build (`data`) and to serve (`serve`, `deploy`), and one
to run over a folder of rows (`run`). No part of them is replaced but where rows come
from and go to, in those that are only built. ANSWERED says what came of each.
"""

import json
import runpy
import sys
from pathlib import Path

import ray
import ray.data
import yaml
from ray import serve
from ray.serve.llm import build_openai_app
from ray.serve.schema import ServeDeploySchema


def main() -> None:
    """Answer each part on one cluster."""
    asked_in, answered_in = map(Path, sys.argv[1:])
    asked = json.loads(asked_in.read_text(encoding="utf-8"))
    ray.init(
        include_dashboard=False,
        num_cpus=4,  # Ray starts as many processes at once
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _temp_dir=asked["folder"],
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    done = {
        "data": [built(program) for program in asked["data"]],
        "serve": [served(program) for program in asked["serve"]],
        "deploy": [deployed(config) for config in asked["deploy"]],
    }
    run(asked["run"])
    answered_in.write_text(json.dumps(done), encoding="utf-8")
    ray.shutdown()


def built(program: str) -> list[dict[str, object]]:
    """Build the program's processor and lay its stages over rows, without running."""
    names = runpy.run_path(program, run_name="exported")
    rows = ray.data.from_items([{"prompt": "word1"}])
    read, write = ray.data.read_parquet, ray.data.Dataset.write_parquet
    laid = []
    ray.data.read_parquet = lambda _source: rows
    ray.data.Dataset.write_parquet = lambda dataset, _target: laid.append(dataset)
    try:
        names["main"]("nowhere", "nowhere")
    finally:
        ray.data.read_parquet, ray.data.Dataset.write_parquet = read, write
    (dataset,) = laid
    return stages(dataset._logical_plan.dag)


def stages(operator) -> list[dict[str, object]]:
    """Return the stages up to an operator: what Ray Data will ask of a cluster."""
    found = []
    while operator.input_dependencies:
        told, pool = operator.ray_remote_args, operator.compute
        stage = {
            "name": operator.name,
            "gpus": told.get("num_gpus") or 0,
            "accelerator_type": told.get("accelerator_type"),
            "is_group": operator.ray_remote_args_fn is not None,
            "least": getattr(pool, "min_size", None),
            "most": getattr(pool, "max_size", None),
        }
        found.insert(0, stage)
        (operator,) = operator.input_dependencies
    return found


def served(program: str) -> str:
    """Make the program's application, without running it."""
    names = runpy.run_path(program, run_name="exported")
    assert isinstance(names["app"], serve.Application)
    return names["config"].model_id


def deployed(config: str) -> str:
    """Check a configuration as `serve deploy` does, and make its application."""
    text = Path(config).read_text(encoding="utf-8")
    checked = ServeDeploySchema.model_validate(yaml.safe_load(text))
    (application,) = checked.applications
    assert isinstance(build_openai_app(application.args), serve.Application)
    return application.import_path


def run(words: list[str]) -> None:
    """Run a program as a user does."""
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
