"""Processes: components and acker workers as processes, and their health."""
