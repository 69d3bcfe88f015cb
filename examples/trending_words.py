"""The words of the last ten seconds, every two: run it with `acker run examples.trending_words:topology --local`."""

from collections import Counter

from examples.word_count import Lines, Split
from spout_sdk import TaskContext, TopologyBuilder, Window, WindowCollector, WindowedBolt, declare, sliding


class Trending(WindowedBolt):
    """Keeps the counts of a sliding window: adds new tuples, subtracts expired ones."""

    window = sliding(seconds=10, every=2)
    streams = (declare({"word": str, "count": int}),)

    def prepare(self, context: TaskContext, collector: WindowCollector) -> None:
        self.counts: Counter[str] = Counter()

    def execute_window(self, window: Window) -> None:
        self.counts.update(tuple_["word"] for tuple_ in window.new)
        self.counts.subtract(tuple_["word"] for tuple_ in window.expired)
        for word, count in self.counts.most_common(3):
            # Not anchored: the next window has new counts, so a window is not replayed for it.
            self.collector.emit((word, count), anchors=())
        self.context.count("windows")


# Lines whose words are in a window are open, so this is also how many of them the last ten seconds can have.
builder = TopologyBuilder("trending-words", message_timeout=30.0, max_spout_pending=20_000)
builder.set_spout("lines", Lines)
builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
builder.set_bolt("trending", Trending, tasks=2).fields_grouping("split", "word")
topology = builder.build()
