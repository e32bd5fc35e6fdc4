"""The KV cache: attention backends, specs of layers, groups, blocks, capacity."""
