"""What the folds of a worker count. Apart from the fold, so that reading stats does not load the ledger's compiler."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What a fold has seen and done since it began, for logs and metrics."""

    records: int = 0
    inits: int = 0
    acks: int = 0
    fails: int = 0
    resets: int = 0
    trees_acked: int = 0
    trees_failed: int = 0
    trees_timed_out: int = 0
    trees_too_old: int = 0
    orphans_expired: int = 0
    duplicate_inits: int = 0
    repeated_batches: int = 0
    superseded_batches: int = 0
    rejected: int = 0
