"""`acker gateway`: messages over HTTP, and their outcomes."""

from typing import TYPE_CHECKING

from acker_cli.commands.options import argument, command, option
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from acker_cli.settings.sections import KafkaProperties

_HOST = "Where to listen; 127.0.0.1, which only this machine reaches, by default [dim](ACKER_GATEWAY__HOST)[/]."
_PORT = "Where to listen; 8421 by default, 0 takes a free one [dim](ACKER_GATEWAY__PORT)[/]."


@command(
    "gateway",
    ("acker gateway prices", "messages of the only spout of prices, from programs of this machine"),
    ("acker gateway prices --spout orders --topic prices.orders", "of one spout and topic of several"),
    ("ACKER_GATEWAY__TOKEN=$(cat token) acker gateway prices --host 0.0.0.0", "for other machines"),
    ("curl -d '3 apples' 'localhost:8421/process?key=order-1&timeout=10'", "send a message, and wait for its result"),
    flags={
        "gateway.host": (str | None, option("ADDRESS", _HOST, "--host")),
        "gateway.port": (int | None, option("PORT", _PORT, "--port")),
    },
)
def gateway(
    loaded: LoadedSettings,
    topology: str = argument("TOPOLOGY", "Its name in acker.topologies."),
    spout: str | None = option("NAME", "The spout; not needed if only one has outcomes."),
    topic: str | None = option("NAME", "The topic that it reads; by default the one of its committed offsets."),
) -> None:
    """Send messages to a topology over HTTP, and answer each when its tree has ended, with what a bolt has answered.

    POST /process sends the body as a message, with the parameters key and timeout, in seconds. The response is JSON:
    200 with the outcome and the answer, 202 if the timeout passes before, 422 for a dead letter, 429 if too many
    messages are open. GET /health is for load balancers.

    At 127.0.0.1 no token is needed. At another address it is ACKER_GATEWAY__TOKEN, or one is made and printed.

    Runs until Ctrl-C; then it waits for open requests, gateway.stop_timeout_s.
    """
    from acker_cli.console import log_to_stderr, standard_error, standard_output
    from acker_cli.gateway.app import Limits
    from acker_cli.gateway.server import GatewayServer
    from acker_cli.interruption import interruptible
    from inspection.http_server import ServedAt
    from spout_sdk import Client

    log_to_stderr(loaded.settings.log_level)
    kafka, section = loaded.cluster(), loaded.settings.gateway
    with interruptible(is_service=True):
        with standard_error().status("asking the cluster …"):
            chosen = topic or _only_topic(kafka, topology, spout)
        client = Client(topology, kafka, spout=spout, topic=chosen, max_open=section.max_open)
        at = ServedAt(section.host, section.port, section.token, (), section.certificate, section.key)
        limits = Limits(section.max_body_bytes, section.timeout_s, section.max_timeout_s)
        with GatewayServer(client, at, limits, section.stop_timeout_s) as served:
            standard_output().print(served.address)
            if served.token is not None and not section.token:
                standard_output().print(f"Authorization: Bearer {served.token}")
            standard_error().print(f"messages go to topic {chosen}. Ctrl-C stops it")
            served.wait()


def _only_topic(kafka: "KafkaProperties", topology: str, spout: str | None) -> str:
    """The topic for which the spout has committed offsets."""
    from acker_cli.errors import CliError
    from inspection.message_status.spouts import SourceSpouts
    from kafka_clients.catalogue import Catalogue
    from spout_sdk.client.target import spout_of

    manifest = Catalogue(kafka).manifest(topology)
    name = spout_of(manifest, spout).name
    read = SourceSpouts(kafka, manifest).read()
    topics = sorted({topic for each in read if each.name == name for topic in each.topics})
    if len(topics) != 1:
        found = f"several topics, {', '.join(topics)}" if topics else "no topic"
        raise CliError(f"spout {name!r} has committed offsets of {found}: give the one to write to with --topic")
    return topics[0]
