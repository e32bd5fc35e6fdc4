"""Tables that a worker keeps in CPU memory for each request that it may work on.

Source: vLLM 0.33.0 `v1/worker/gpu/states.py` RequestState and
`v1/worker/gpu/buffer_utils.py` UvaBuffer (second model runner, from 0.12.0);
`v1/worker/gpu_input_batch.py` InputBatch (first model runner, from 0.9.2).
"""

from __future__ import annotations

from planner.memory.host import HostLine
from planner.releases import Release
from planner.result import Basis

_TOKEN_ID = 4
_FLAG = 1


def token_ids(
    max_num_seqs: int, max_model_len: int, release: Release, *, uses_v2_runner: bool
) -> HostLine:
    """Return the tokens of every request at its full length, by request.

    The second model runner pins them, so that the GPU reads them where they are. The
    first also keeps whether each is a token or an embedding, from 0.11.0 on.
    """
    entry = _TOKEN_ID
    is_flagged = not uses_v2_runner and release.since(0, 11)
    if is_flagged:
        entry += _FLAG
    held = "pinned" if uses_v2_runner else "resident once written"
    return HostLine(
        name="token ids",
        size_bytes=max_num_seqs * max_model_len * entry,
        basis=Basis.EXACT,
        why=f"{max_num_seqs:,} max_num_seqs x {max_model_len:,} max_model_len x "
        f"{entry} bytes, {held}",
        is_usual=True,
    )
