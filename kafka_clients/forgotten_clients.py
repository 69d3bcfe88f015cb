"""Clients that are no longer referenced, ended in a thread where that is allowed.

A client of librdkafka that calls back in a thread of its own, as an `AdminClient` does, must not be destroyed in that
thread: librdkafka then aborts the whole process. But Python collects garbage in whatever thread happens to allocate. A
client that asked something, and then became part of a cycle (an exception's traceback is enough), may be found by the
very call that brings its answer.
"""

import sys
import threading
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

# To put into it is safe wherever a finalizer may run.
_forgotten: Final[SimpleQueue[Any]] = SimpleQueue()
_kinds: Final[dict[type[Any], type[Any]]] = {}


def forgettable(kind: type[T]) -> type[T]:
    """A subclass of a client whose objects are ended in a thread of this module once they are garbage.

    `kind` has `__exit__`, which ends it; requests that have no answer yet may be pending.
    """
    if kind not in _kinds:
        _kinds[kind] = type(kind.__name__, (_Forgettable, kind), {})
    return _kinds[kind]


class _Forgettable:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _end_in_background()

    def __del__(self, is_finalizing: Any = sys.is_finalizing, put: Any = _forgotten.put) -> None:
        # At the end of the process only its main thread is left, which may end it. The arguments are kept here, because
        # this module may be gone by then.
        if not is_finalizing():
            put(self)


@cache
def _end_in_background() -> None:
    def end_each() -> None:
        while True:
            client = _forgotten.get()
            # One whose settings were refused was never begun.
            with suppress(Exception):
                client.__exit__(None, None, None)
            del client

    threading.Thread(target=end_each, name="forgotten-clients", daemon=True).start()
