"""The dashboard of a cluster, as the settings have it."""

from typing import TYPE_CHECKING

from acker_cli.settings import DashboardSection, KafkaProperties

if TYPE_CHECKING:
    from inspection.dashboard import DashboardServer


def dashboard_served(kafka: KafkaProperties, section: DashboardSection, topology: str | None) -> "DashboardServer":
    """The dashboard, to be entered; nothing listens before.

    Args:
        kafka: librdkafka properties.
        section: where it is served.
        topology: the only one to show; None for all.

    Raises:
        DashboardError: if the token cannot be used.
    """
    # Its libraries are slow to import, and most commands need none of them.
    from inspection.dashboard import DashboardServer, ServedAt
    from inspection.dashboard.kafka_source import KafkaSource

    at = ServedAt(section.host, section.port, section.token, section.names.split(","), section.certificate, section.key)
    return DashboardServer(KafkaSource(kafka), at, topology)


def check_dashboard_port(section: DashboardSection) -> None:
    """Makes sure that the dashboard can be served, before anything else is started.

    Raises:
        DashboardError: if nothing can listen there.
    """
    from inspection.dashboard.server import listening_at

    listening_at(section.host, section.port).close()
