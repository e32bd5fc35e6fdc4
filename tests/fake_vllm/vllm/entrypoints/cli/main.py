"""The stand-in's command line: `serve` alone, with the pages that are asked for."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vllm.engine import Engine

_SWITCHES = (
    "--skip-tokenizer-init",
    "--enforce-eager",
    "--disable-uvicorn-access-log",
)


def main() -> None:
    assert importlib.metadata.version("vllm")
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("model")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.9)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--dtype")
    parser.add_argument("--load-format")
    parser.add_argument("--served-model-name")
    parser.add_argument("--worker-extension-cls")
    for name in _SWITCHES:
        parser.add_argument(name, action="store_true")
    engine = Engine(vars(parser.parse_args(sys.argv[1:])))
    engine.start()
    address = (engine.arguments["host"], engine.arguments["port"])
    server = ThreadingHTTPServer(address, type("Pages", (Pages,), {"engine": engine}))
    server.serve_forever()


class Pages(BaseHTTPRequestHandler):
    engine: Engine

    def log_message(self, *_words: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer("")
            return
        labels = ",".join(
            f'{name}="{value}"'
            for name, value in vars(self.engine.vllm_config.cache_config).items()
        )
        lines = [f"vllm:cache_config_info{{{labels}}} 1.0"]
        for name, value in self.engine.metrics().items():
            total = "_total" if name.endswith("preemptions") else ""
            lines.append(f'{name}{total}{{engine="0"}} {value}')
        self._answer("# HELP of a metric\n" + "\n".join(lines) + "\n")

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        asked: dict[str, Any] = json.loads(self.rfile.read(size))
        if self.path == "/collective_rpc":
            self._answer(
                json.dumps({"results": self.engine.call_workers(asked["method"])})
            )
            return
        engine = self.engine
        engine._running += 1
        tokens = engine.answer(asked["prompt"], asked["max_tokens"])
        time.sleep(0.3 if asked.get("ignore_eos") else 0)
        engine._running -= 1
        self._answer(json.dumps({"choices": [{"text": "", "token_ids": tokens}]}))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
