"""Plans side by side, sweeps over arguments, and GPUs against each other."""
