"""Chained bolts, which run in the task of the component that they receive from.

- `head_task`: the base of the tasks of a group; `chain`: the chained bolts of a task; `chained_task`: one chained bolt.
- `chained_inputs`: the open inputs of a chained bolt.
- `noted_outcomes`: when an input of a task with chained bolts is done.
"""
