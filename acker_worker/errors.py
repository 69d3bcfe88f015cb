"""Errors of the acker worker, beside those of the cluster.

ClusterError                 see `kafka_clients.errors`
└── AckerWorkerError
    ├── LedgerError              an invalid setting or call of the ledger
    ├── DeliveryError            notices could not be delivered, so nothing may be committed
    └── UnsupportedVersionError  an ack batch or a commit of another version: nothing behind it may be read
"""

from kafka_clients.errors import ClusterError


class AckerWorkerError(ClusterError):
    """Base of all errors raised by `acker_worker`; the message ends with what to do."""


class LedgerError(AckerWorkerError):
    pass


class DeliveryError(AckerWorkerError):
    pass


class UnsupportedVersionError(AckerWorkerError):
    pass
