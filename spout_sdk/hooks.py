"""Hooks: your code, called when a task emits, executes, acks or fails.

from spout_sdk.hooks import TaskHook
"""

from spout_sdk.api.context import EmitInfo, TaskHook

__all__ = ["EmitInfo", "TaskHook"]
