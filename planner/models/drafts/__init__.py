"""Speculative decoding: what guesses tokens ahead of a model, and what that keeps.

`asked` reads and checks speculative_config, `methods` finds vLLM's method, `heads`
builds the layers for multi-token prediction in the model's own checkpoint, `eagle`,
`dflash` and `standalone` drafts from checkpoints of their own; `attaching` puts one
beside its target.
"""
