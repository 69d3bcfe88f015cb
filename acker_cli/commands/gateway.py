"""`acker gateway`: messages over HTTP, and their outcomes."""

from typing import TYPE_CHECKING, NamedTuple

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
    topology: str = argument("TOPOLOGY", "The topology's name in acker.topologies."),
    spout: str | None = option("NAME", "The spout; not needed if only one has outcomes."),
    topic: str | None = option("NAME", "The topic that it reads; by default the one of its committed offsets."),
) -> None:
    """Send messages to a topology over HTTP, and answer each when its tree has ended, with what a bolt has answered.

    POST /process sends the body as a message, with the parameters key and timeout, in seconds. The response is JSON:
    200 with the outcome and the answer, 202 after the timeout, 422 for a dead letter, 429 if too many
    messages are open. GET /health is for load balancers.

    At 127.0.0.1 no token is needed. At another address it is ACKER_GATEWAY__TOKEN, or the command prints a random one.

    Runs until Ctrl-C; then it waits for open requests, gateway.stop_timeout_s.
    """
    from acker_cli.console import log_to_stderr, standard_error, standard_output
    from acker_cli.gateway.app import Limits
    from acker_cli.gateway.server import GatewayServer
    from acker_cli.interruption import interruptible
    from inspection.http_server import ServedAt
    from spout_sdk.client import Client

    log_to_stderr(loaded.settings.log_level)
    kafka, section = loaded.cluster(), loaded.settings.gateway
    with interruptible(is_service=True):
        with standard_error().status("asking the cluster …"):
            known = _topics(kafka, topology, spout)
        chosen = topic or _only(known)
        if chosen not in known.topics:
            standard_error().print(
                f"[yellow]spout {known.spout} has no committed offsets of topic {chosen}, but of "
                f"{', '.join(known.topics) or 'no topic'}: if it does not read {chosen}, no message of this gateway "
                "has an outcome[/]"
            )
        client = Client(topology, kafka, spout=spout, topic=chosen, max_open=section.max_open)
        at = ServedAt(section.host, section.port, section.token, (), section.certificate, section.key)
        limits = Limits(section.max_body_bytes, section.timeout_s, section.max_timeout_s)
        with GatewayServer(client, at, limits, section.stop_timeout_s) as served:
            standard_output().print(served.address)
            if served.token is not None and not section.token:
                standard_output().print(f"Authorization: Bearer {served.token}")
            standard_error().print(f"messages go to topic {chosen}. Ctrl-C stops it")
            served.wait()


class _Known(NamedTuple):
    """A spout, and the topics for which it has committed offsets."""

    spout: str
    topics: list[str]


def _topics(kafka: "KafkaProperties", topology: str, spout: str | None) -> _Known:
    from contextlib import suppress

    from inspection.errors import StatusError
    from inspection.message_status.spouts import SourceSpouts
    from kafka_clients.catalogue import Catalogue
    from spout_sdk.client.target import spout_of

    manifest = Catalogue(kafka).manifest(topology)
    known = _Known(spout_of(manifest, spout).name, [])
    with suppress(StatusError):  # no spout has begun to read
        read = SourceSpouts(kafka, manifest).read()
        known.topics.extend(sorted({topic for each in read if each.name == known.spout for topic in each.topics}))
    return known


def _only(known: _Known) -> str:
    from acker_cli.errors import CliError

    if len(known.topics) == 1:
        return known.topics[0]
    found = f"several topics, {', '.join(known.topics)}" if known.topics else "no topic"
    raise CliError(f"spout {known.spout!r} has committed offsets of {found}: give the one to write to with --topic")
