"""One read for many browsers."""

import threading
from collections.abc import Sequence

from inspection.dashboard.kafka_source import _Cached
from inspection.dashboard.source import Shown


def test_what_browsers_ask_for_while_it_is_read_is_read_once() -> None:
    """Else each of them would wait for those before it."""
    begun, go_on, reads = threading.Event(), threading.Event(), 0

    def read() -> Sequence[Shown]:
        nonlocal reads
        reads += 1
        begun.set()
        assert go_on.wait(60)
        return [{"read": reads}]

    cached, answers = _Cached(read, lambda: 7.0 * reads), list[object]()
    threads = [threading.Thread(target=lambda: answers.append(cached.read())) for _ in range(4)]
    for thread in threads:
        thread.start()
        assert begun.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert answers == [[{"read": 1}]] * 4
