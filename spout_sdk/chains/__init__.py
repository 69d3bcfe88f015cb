"""Chained bolts, which run in the task of the component that they receive from.

- `head_task`: the base of tasks of a group, which have a chain; `chain`: the chained bolts of a task; `chained_task`:
  one of them.
- `chained_inputs`: the inputs of one that are open.
- `noted_outcomes`: when an input is done that chained bolts have made others of.
"""
