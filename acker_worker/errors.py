"""Errors of the acker worker; `kafka_clients.errors` has the tree."""

from kafka_clients.errors import AckerError as AckerError
from kafka_clients.errors import DeliveryError as DeliveryError
from kafka_clients.errors import UnsupportedVersionError as UnsupportedVersionError


class LedgerError(AckerError):
    """An invalid setting or call of the ledger."""
