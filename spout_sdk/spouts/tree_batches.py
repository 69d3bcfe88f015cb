"""The input batches of the trees that a spout begins."""

from spout_sdk.api.tuples import NO_TREES
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.records import Headers
from tuple_tree.input_batch import MOST_PLACES, InputBatch


class TreeBatches:
    """The batches to which a spout adds trees, of one trace at a time.

    Args:
        is_identified: whether the tuples of the spout have identities.

    Attributes:
        trees: the batch of new trees.
        untracked: the batch of tuples without a tree.
    """

    __slots__ = ("_is_identified", "_outbox", "trees", "untracked")

    def __init__(self, outbox: Outbox, *, is_identified: bool) -> None:
        self._outbox, self._is_identified = outbox, is_identified
        self.trees, self.untracked = InputBatch(is_identified=is_identified), NO_TREES

    def of(self, trace_context: Headers, trees: int = 1) -> InputBatch:
        """The current batch, or a new one if that is of another trace or has no room for the trees."""
        is_other = self.trees.trace_context != trace_context
        if is_other:
            self._outbox.flush_before_trace()
            self.untracked = InputBatch(trace_context, is_tracked=False)
        if is_other or self.trees.size + trees > MOST_PLACES:
            self.trees = InputBatch(trace_context, is_identified=self._is_identified)
        return self.trees
