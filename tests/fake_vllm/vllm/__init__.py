"""A stand-in for vLLM: it starts, logs, measures and answers as vLLM does.

No model is computed. What it does is said by the environment variable FAKE_VLLM, JSON:
hang (a line of the log after which it waits for ever), error (what it raises instead of
coming up), strays (processes of other sessions that it leaves behind).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vllm.engine import Engine

__version__ = "0.33.0+cpu"


class SamplingParams:
    def __init__(self, **given: Any) -> None:
        self.given = given


class LLM:
    """As vLLM's class of that name, as far as a confirmation uses it."""

    def __init__(self, **arguments: Any) -> None:
        self._engine = Engine(arguments)
        self._engine.start()
        self.llm_engine = self._engine

    def collective_rpc(self, method: str) -> list[Any]:
        return self._engine.call_workers(method)

    def generate(self, prompt: dict[str, Any], asked: SamplingParams) -> list[Any]:
        tokens = self._engine.answer(
            prompt["prompt_token_ids"], asked.given["max_tokens"]
        )
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, text="")])]

    def get_metrics(self) -> list[Any]:
        return [
            SimpleNamespace(name=name, value=value)
            for name, value in self._engine.metrics().items()
        ]
