"""The memory account of a rank, one pure module per line, and CPU memory beside it.

`account` defines the values, and `estimate` adds the lines up. `weights`: parameters
and buffers. `lines`: all other lines of the budget except the KV cache. `kv_cache`:
which kernel serves a layer, what the layer stores, and how many blocks fit. `lora` and
`media`: adapters, and the encoders of images, videos and audio. `host`: CPU memory and
loading. `cpu_account`: the account of vLLM's CPU build.
"""
