"""The API that users write against.

- `components`: spouts and bolts; `tuples`: the tuple, as a bolt receives it.
- `context`: the context of a task: its component and topology; hooks.
- `topology`: a topology as built; `signatures`: the signatures that components must have.
- `row_types`: a class as the type of the rows of a stream; `row_members`: the members of a class; `row_fields`: the
  types of its fields.
- `needs`: what a kind of component needs of its task.
- `retry`: when a failed message or tuple is tried again.
"""
