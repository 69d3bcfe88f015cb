"""The words of the last ten seconds, every two: run it with `acker run examples.trending_words:topology --local`."""

from collections import Counter

from examples.word_count import Lines, Split
from spout_sdk import TopologyBuilder, declare
from spout_sdk.windows import Window, WindowedBolt, sliding


class Trending(WindowedBolt):
    """Emits the three most frequent words of each window."""

    window = sliding(seconds=10, every=2).with_timestamp_extractor(lambda tuple_: tuple_.timestamp_ms)
    streams = (declare({"end": int, "word": str, "count": int}),)

    def execute_window(self, window: Window) -> None:
        for word, count in Counter(row["word"] for row in window.tuples).most_common(3):
            self.collector.emit((window.end, word, count))


builder = TopologyBuilder("trending-words")
builder.set_spout("lines", Lines)
builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
builder.set_bolt("trending", Trending).global_grouping("split")
topology = builder.build()
