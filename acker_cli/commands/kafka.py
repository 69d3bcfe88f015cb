"""`acker kafka`."""

import threading
from pathlib import Path
from typing import Annotated, Final

import typer

from acker_cli.console import print_json, standard_error, standard_output
from acker_cli.options import ConfigOption, JsonOption, SetOption, assigned, examples, help_of

_LOOK_SECONDS: Final = 0.5


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "kafka",
        help=help_of(kafka),
        epilog=examples(
            ("acker kafka", "a broker on a free port, whose data is gone afterwards"),
            ("acker kafka --port 9092 --data-dir ./kafka", "always the same port, and data that stays"),
        ),
    )(kafka)


def kafka(
    port: Annotated[
        int | None, typer.Option(help="Where it listens; a free port unless given.", show_default=False)
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where its data stays; temporary unless given.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Run the embedded Kafka broker until Ctrl-C.

    Prints its address as soon as it can be reached. Needs Java 17 or newer; Apache Kafka is downloaded once.
    """
    from acker_cli.cluster import embedded_broker
    from acker_cli.errors import ProcessError
    from acker_cli.interruption import interruptible
    from acker_cli.setting_layers import Flags, load

    flags = assigned(set_, {"local_kafka.port": port, "local_kafka.data_dir": data_dir})
    section = load(Flags(config, None, flags)).settings.local_kafka
    error = standard_error()
    with interruptible(is_service=True):
        broker = embedded_broker(section, error)
        try:
            broker.start()
            servers = broker.bootstrap_servers
            if json_:
                print_json({"bootstrap_servers": servers, "pid": broker.pid})
            else:
                standard_output().print(servers, markup=False)
                error.print(f"For other commands: export ACKER_KAFKA__BOOTSTRAP_SERVERS={servers}", markup=False)
            pause = threading.Event()
            while broker.is_running:
                pause.wait(_LOOK_SECONDS)
            raise ProcessError(f"the broker has ended by itself: see {broker.log_path}, and start it again")
        finally:
            broker.stop()
