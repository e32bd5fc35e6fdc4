"""speculative_config: who guesses tokens ahead of a model, and what that keeps.

`asked` reads and checks the argument, `methods` finds vLLM's method, `heads` builds the
layers for multi-token prediction that lie in the model's own checkpoint, `eagle` and
`standalone` drafts from checkpoints of their own; `attaching` puts one beside a model.
"""
