"""Processes: components and acker workers as processes, and their health.

`control_watch`: whether to stop them; `reloading`: to start them again when the code changes.
"""
