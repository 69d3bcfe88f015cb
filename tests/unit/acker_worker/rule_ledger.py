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

    def mark(self, roots: IdColumn, vals: IdColumn) -> Outcomes:
        return self.apply([Run(kernels.MARK, roots, vals)])

    def records(self) -> dict[int, tuple[int, bool, bool, bool]]:
        """By root: checksum, whether its spout is known, it failed, it is marked; the table has to be sorted."""
        slots = self._table.reshape(-1, kernels.WORDS)
        held = slots[slots[:, 2] != 0]
        assert (held[1:, 0] > held[:-1, 0]).all()
        bits = (held[:, 2] & bit != 0 for bit in (kernels.KNOWN, kernels.FAILED, kernels.MARKED))
        records = zip(held[:, 1].tolist(), *(each.tolist() for each in bits), strict=True)
        return dict(zip((held[:, 0] * INVERSE).tolist(), records, strict=True))
