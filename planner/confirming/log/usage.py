"""What a running server logs every ten seconds: requests and the KV cache in use."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"Running: +(?P<running>\d+) +reqs?, +(?:Swapped: +\d+ +reqs?, +)?"
    r"(?:Pending|Waiting): +(?P<waiting>\d+) +reqs?,[^\n]{0,300}?"
    r"(?:Preemptions: +(?P<preemptions>\d+),[^\n]{0,40}?)?"
    r"KV +cache +usage: +(?P<usage>\d+(?:\.\d+)?)%"
)


def usage_in(text: str) -> dict[str, int | float]:
    """Return the figures of the fullest moment in a log; empty without such a line.

    Preemptions are those of all lines: vLLM counts anew after each.

    >>> line = "Running: 4 reqs, Waiting: 16 reqs, GPU KV cache usage: 99.4%, Prefix"
    >>> usage_in(line)["kv_cache_usage"], usage_in(line)["num_requests_waiting"]
    (0.994, 16)

    Source: vLLM 0.33.0 `v1/metrics/loggers.py` LoggingStatLogger.log; V0 says Pending.
    """
    found = list(_LINE.finditer(text))
    if not found:
        return {}
    fullest = max(found, key=lambda one: (float(one["usage"]), int(one["waiting"])))
    preempted = sum(int(one["preemptions"] or 0) for one in found)
    return {
        "kv_cache_usage": round(float(fullest["usage"]) / 100, 6),
        "num_requests_running": int(fullest["running"]),
        "num_requests_waiting": int(fullest["waiting"]),
        **({"num_preemptions": preempted} if preempted else {}),
    }
