"""What starts vLLM: commands, containers, manifests, settings of frameworks."""
