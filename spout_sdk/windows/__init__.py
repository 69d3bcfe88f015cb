"""Windows: bolts that work on many tuples at a time, and ack each when it leaves its last window.

Rooms:

- `specs`: `tumbling` and `sliding`, what a bolt declares.
- `window`: `Window`, what it is handed.
- `policies`: when a window closes and who is in it; no clock, no I/O.
- `bolt`: `WindowedBolt`, which puts them to work.
- `checks`: what is refused when a topology is built.
"""
