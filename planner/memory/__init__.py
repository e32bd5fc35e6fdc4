"""One module per line of vLLM's memory account, each pure.

weights: parameters and buffers. persistent: buffers beside them. activations: the peak
of the profile run. non_torch, cudagraphs: what only a GPU can tell. kv_spec,
kv_groups, kv_cache: the KV cache. attention_backend: which kernel serves a layer. host,
nodes: what each machine keeps in CPU memory beside it.
"""
