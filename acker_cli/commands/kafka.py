"""`acker kafka`."""

import time
from pathlib import Path
from typing import Final

from acker_cli.commands.options import JSON, command, option
from acker_cli.settings import LoadedSettings

_LOOK_SECONDS: Final = 0.5


@command(
    "kafka",
    ("acker kafka", "a broker on a free port, whose data is gone afterwards"),
    ("acker kafka --port 9092 --data-dir ./kafka", "always the same port, and data that stays"),
    flags={
        "local_kafka.port": (int | None, option(None, "The port to listen on; by default a free one.", "--port")),
        "local_kafka.data_dir": (
            Path | None,
            option(None, "The directory of its data; by default a temporary one.", "--data-dir"),
        ),
    },
    servers=False,
)
def kafka(loaded: LoadedSettings, json_: bool = JSON) -> None:
    """Run the embedded Kafka broker until Ctrl-C.

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
