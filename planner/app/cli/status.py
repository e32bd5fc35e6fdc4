"""Exit statuses, and the type of argparse's subcommands."""

from __future__ import annotations

import argparse
from typing import TypeAlias

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
