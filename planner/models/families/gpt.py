"""ChatGLM, by its former module."""

from planner.models.families.chatglm import read_chatglm

__all__ = ["read_chatglm"]
