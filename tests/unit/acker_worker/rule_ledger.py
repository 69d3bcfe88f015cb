"""A ledger with a method for each rule, and its records in the open."""

from acker_worker import kernels
from acker_worker.ledger import MULTIPLIER, Ledger, Outcomes, Run
from tuple_tree.ids import IdColumn
from tuple_tree.messages import SpoutAddress

INVERSE = pow(MULTIPLIER, -1, 2**64)


class RuleLedger(Ledger):
    """Applies a rule to some roots at once."""

    def init(self, roots: IdColumn, vals: IdColumn, spout: SpoutAddress) -> Outcomes:
        return self.apply([Run(kernels.INIT, roots, vals, self.index_of(spout))])

    def ack(self, roots: IdColumn, vals: IdColumn) -> Outcomes:
        return self.apply([Run(kernels.ACK, roots, vals)])

    def fail(self, roots: IdColumn) -> Outcomes:
        return self.apply([Run(kernels.FAIL, roots)])

    def reset(self, roots: IdColumn) -> Outcomes:
        return self.apply([Run(kernels.RESET, roots)])

    def records(self) -> dict[int, tuple[int, bool, bool]]:
        """By root: checksum, whether the spout is known, whether it failed; the table has to be sorted."""
        slots = self._table.reshape(-1, kernels.WORDS)
        held = slots[slots[:, 2] != 0]
        assert (held[1:, 0] > held[:-1, 0]).all()
        known, failed = held[:, 2] & kernels.KNOWN != 0, held[:, 2] & kernels.FAILED != 0
        records = zip(held[:, 1].tolist(), known.tolist(), failed.tolist(), strict=True)
        return dict(zip((held[:, 0] * INVERSE).tolist(), records, strict=True))
