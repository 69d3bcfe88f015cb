"""`acker kafka`."""

import time
from pathlib import Path
from typing import Final

from acker_cli.commands.options import JSON, argument, command, option
from acker_cli.errors import SettingsError
from acker_cli.settings import LoadedSettings

_LOOK_SECONDS: Final = 0.5


@command(
    "topics",
    ("acker kafka topics", "all topics of the cluster"),
    ("acker kafka topics orders=6 invoices=3", "create two of them"),
)
def topics(
    loaded: LoadedSettings,
    new: list[str] | None = argument(
        "TOPIC=PARTITIONS", "A topic to create unless it exists; repeatable.", default=None
    ),
    json_: bool = JSON,
) -> None:
    """List the topics of a cluster with their partitions, or create topics.

    New topics have the brokers' settings, and as many copies as the setting topics.replication_factor. A topology's own
    topics are created by acker topics create.
    """
    from acker_cli.console import log_to_stderr, print_json, standard_output
    from inspection.notation import counted
    from kafka_clients.catalogue import Catalogue
    from kafka_clients.new_topics import create_missing

    log_to_stderr(loaded.settings.log_level)
    wanted = dict(map(_wanted, new or ()))
    catalogue = Catalogue(loaded.cluster())
    created = create_missing(catalogue, wanted, loaded.settings.topics.replication_factor)
    known = catalogue.topics()
    shown = {name: known[name] for name in wanted or sorted(known) if not name.startswith("__")}
    if json_:
        print_json({"topics": shown, "created": created})
        return
    for name, partitions in shown.items():
        outcome = "" if not wanted else "created  " if name in created else "exists  "
        standard_output().print(f"{outcome}{name}  {counted(partitions, 'partition')}")


def _wanted(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition("=")
    if not (name and partitions.isdecimal() and int(partitions)):
        raise SettingsError(f"a topic to create is TOPIC=PARTITIONS, such as orders=6, not {text!r}")
    return name, int(partitions)


@command(
    "kafka",
    ("acker kafka", "a broker on a free port, whose data is gone afterwards"),
    ("acker kafka --port 9092 --data-dir ./kafka", "always the same port, and data that stays"),
    ("acker kafka topics orders=6 --bootstrap-servers 127.0.0.1:9092", "a topic on a running one"),
    flags={
        "local_kafka.port": (int | None, option(None, "The port to listen on; by default a free one.", "--port")),
        "local_kafka.data_dir": (
            Path | None,
            option(None, "The directory of its data; by default a temporary one.", "--data-dir"),
        ),
    },
    servers=False,
    members=(topics,),
)
def kafka(loaded: LoadedSettings, json_: bool = JSON) -> None:
    """Run the embedded Kafka broker until Ctrl-C; or list and create topics.

    Prints its address as soon as it can be reached. Needs Java 17 or newer; Apache Kafka is downloaded once.
    """
    from acker_cli.cluster.local import embedded_broker
    from acker_cli.console import print_json, standard_error, standard_output
    from acker_cli.errors import ProcessError
    from acker_cli.interruption import interruptible

    error = standard_error()
    with interruptible(is_service=True):
        broker = embedded_broker(loaded.settings.local_kafka, error)
        try:
            broker.start()
            servers = broker.bootstrap_servers
            if json_:
                print_json({"bootstrap_servers": servers, "pid": broker.pid})
            else:
                standard_output().print(servers)
                error.print(f"For other commands: export ACKER_KAFKA__BOOTSTRAP_SERVERS={servers}")
            while broker.is_running:
                time.sleep(_LOOK_SECONDS)
            raise ProcessError(f"the broker has ended by itself: see {broker.log_path}, and start it again")
        finally:
            broker.stop()
