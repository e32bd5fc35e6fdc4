"""The readers of all models with recurrent layers, in one table."""

from planner.architectures import (
    falcon_h1,
    granite_hybrid,
    jamba,
    lfm2,
    mamba,
    nemotron_h,
    olmo_hybrid,
    qwen3_next,
    zamba2,
)

READERS = {
    **falcon_h1.READERS,
    **granite_hybrid.READERS,
    **jamba.READERS,
    **lfm2.READERS,
    **mamba.READERS,
    **nemotron_h.READERS,
    **olmo_hybrid.READERS,
    **qwen3_next.READERS,
    **zamba2.READERS,
}
