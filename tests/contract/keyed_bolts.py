"""The bolts of the scenarios that have a state."""

from typing import Any

from spout_sdk import BasicBolt, Tuple, declare
from spout_sdk.state import StatefulBolt
from spout_sdk.windows import AggregateBolt, Window, WindowedBolt, count, tumbling
from tests.contract.scenario import WORDS, Scene

COUNTS = declare({"number": int, "word": str, "count": int})


def counting(scene: Scene) -> Any:
    """Counts words in a state, and emits each count."""

    class Count(StatefulBolt):
        state = int
        streams = (COUNTS,)

        def update(self, value: int, tuple_: Tuple) -> int:
            scene.executes("count", tuple_["word"])
            return value + 1

        def emit(self, key: str, value: int, tuple_: Tuple, collector: Any) -> None:
            collector.emit((tuple_["number"], key, value))
            scene.has_executed("count", tuple_["number"], key)

    return Count


def in_windows(scene: Scene) -> Any:
    """Emits the tuples of each window of two."""

    class Windows(WindowedBolt):
        window = tumbling(count=2)
        streams = (WORDS,)

        def execute_window(self, window: Window) -> None:
            for row in window.tuples:
                scene.executes("windows", row["word"])
                self.collector.emit((row["number"], row["word"]))
                scene.has_executed("windows", row["number"], row["word"])

    return Windows


TIMED = declare({"word": str, "at": int})


def timed(scene: Scene) -> Any:
    """Emits each word with a time of a second for each message."""

    class Timed(BasicBolt):
        streams = (TIMED,)

        def execute(self, tuple_: Tuple, collector: Any) -> None:
            number, text = tuple_.values
            scene.executes("split", text)
            for word in text.split():
                collector.emit((word, number * 1_000))
            scene.has_executed("split", number, text)

    return Timed


def per_window(_scene: Scene) -> Any:
    """Counts each word in windows of two seconds."""

    class PerWindow(AggregateBolt):
        window = tumbling(seconds=2).with_timestamp_field("at")
        aggregates = {"words": count()}
        streams = (declare({"word": str, "start": int, "end": int, "words": int}),)

    return PerWindow
