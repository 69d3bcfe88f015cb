"""What time it is at the brokers, for a reader whose own clock may be wrong."""


class BrokerClock:
    """Learns how far this machine's clock is from the brokers', from records that come as they are written.

    A record can only be heard after the broker took it, so the largest difference is the truest.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None

    def heard(self, at_ms: int, local_ms: int) -> None:
        """Takes a record that was waited for.

        Args:
            at_ms: when the broker took it, in milliseconds since 1970.
            local_ms: what this machine's clock shows now, likewise.
        """
        ahead_ms = at_ms - local_ms
        self._ahead_ms = ahead_ms if self._ahead_ms is None else max(self._ahead_ms, ahead_ms)

    def now_ms(self, local_ms: int) -> int:
        """The brokers' time; this machine's as long as no record was heard."""
        return local_ms + (self._ahead_ms or 0)
