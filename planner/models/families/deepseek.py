"""DeepSeek, by its former module."""

from functools import partial

from planner.models.families import llama
from planner.models.families.deepseek_v2 import ROWS as DEEPSEEK
from planner.models.families.deepseek_v2 import read_deepseek_text

__all__ = ["read_deepseek", "read_deepseek_text"]

read_deepseek = partial(llama.read, style=DEEPSEEK["DeepseekForCausalLM"])
