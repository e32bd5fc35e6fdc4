"""YAML, JSON, HCL, TOML and NAME=value as nodes that know their places."""
