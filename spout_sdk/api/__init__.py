"""The API that users write against.

- `components`: spouts and bolts; `tuples`: the tuple, as a bolt receives it.
- `context`: what a task is given about itself and its topology, and hooks.
- `topology`: a topology as built; `signatures`: the signatures that components must have.
- `retry`: when what has failed is tried again.
"""
