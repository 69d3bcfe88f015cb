"""`acker chaos`."""

from pathlib import Path

import typer

from acker_cli.commands.options import JSON, REFERENCE, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings


@command(
    "chaos",
    ("acker chaos my_module:topology --local --feed orders=orders.txt", "a minute of faults, broker included"),
    ("acker chaos my_module:topology --local --feed orders=orders.txt --seed 7", "the faults of an earlier run"),
    ("acker chaos my_module:topology --bootstrap-servers test:9092 --duration 600", "on an empty test cluster"),
    ("acker chaos my_module:topology --local --target split --target acker", "only these; a spout of your own"),
)
def chaos(
    loaded: LoadedSettings,
    reference: str = REFERENCE,
    local: bool = flag("--local", "Start an embedded broker, in which faults happen as well."),
    duration: float = option("SECONDS", "How long faults happen.", default=60.0, min=0.0),
    every: float = option("SECONDS", "Mean interval between two faults.", default=5.0, min=0.01),
    seed: int | None = option("NUMBER", "Draws the faults; random unless given, and printed."),
    target: list[str] | None = option(
        "NAME", "Only faults of this component, of acker or of broker; repeatable. All unless given."
    ),
    ackers: int | None = option(None, "Acker workers to start; 1 unless given.", min=0),
    processes: int | None = option("N", "Worker processes; each component in one of its own unless given.", min=1),
    feed: list[str] | None = option(
        "TOPIC=FILE", "Write the lines of a file into a source topic, again and again; repeatable."
    ),
    rate: float = option("N", "Messages a second for each --feed.", default=100.0, min=0.1),
    settle: float | None = option(
        "SECONDS", "After the faults, how long until nothing is open; 60, or 30 more than the message timeout."
    ),
    log: Path = option("FILE", "Where all processes log.", default=Path("chaos.log")),
    beside_others: bool = flag("--beside-others", "Run on a cluster that has other topologies."),
    json_: bool = JSON,
) -> None:
    """Run a topology, kill and suspend its processes at random, and check that nothing is lost.

    SIGKILL, SIGSTOP and SIGTERM hit the processes that it starts: components and acker workers, and with --local the
    broker. Then every message of the source topics must have an outcome, every ack must follow from the ack log, and
    nothing may be open. Exit code 1 if not. For test clusters only.
    """
    import random
    from contextlib import ExitStack

    from acker_cli.chaos.run import ChaosPlan, ChaosRun, logged_to
    from acker_cli.cluster.local import create_topics, embedded_kafka, feeds_of, source_topics
    from acker_cli.console import log_to_stderr, print_json, standard_error, standard_output
    from acker_cli.errors import SettingsError
    from acker_cli.interruption import interruptible
    from acker_cli.processes.running import RunPlan, check_cluster
    from kafka_clients.catalogue import Catalogue

    topology = load_from_here(reference)
    count = int(topology.manifest.acking) if ackers is None else ackers
    heads = [[each.name] for each in topology.manifest.heads if not each.external]
    plan = RunPlan.checked(topology, reference, None, processes or heads, count)
    feeds = feeds_of(topology, feed or ())
    if external := [each.name for each in topology.manifest.components if each.external and local]:
        raise SettingsError(f"--local does not run {', '.join(external)}, which is in Spark: use a test cluster")
    if missing := sorted({*source_topics(topology)} - {each.topic for each in feeds}) if local else []:
        raise SettingsError(f"no messages for {missing[0]}: give --feed {missing[0]}=FILE")
    if any(each.path == "-" for each in feeds):
        raise SettingsError("--feed reads its file again and again: name a file, not standard input")
    chosen = random.SystemRandom().getrandbits(32) if seed is None else seed
    standard_error().print(f"seed {chosen}: --seed {chosen} draws these faults again; all processes log to {log}")
    with interruptible(), ExitStack() as cleaning:
        console = cleaning.enter_context(logged_to(log))
        log_to_stderr(loaded.settings.log_level)
        broker = None
        if local:
            broker, kafka = cleaning.enter_context(embedded_kafka(loaded, console))
            create_topics(kafka, topology, loaded.settings.topics.replication_factor)
        else:
            kafka = loaded.cluster()
            catalogue = Catalogue(kafka)
            if (others := sorted({*catalogue.manifests()} - {topology.name})) and not beside_others:
                raise SettingsError(
                    f"the cluster has other topologies ({', '.join(others)}): use a test cluster, or --beside-others"
                )
            state = catalogue.controls().get(topology.name)
            if state is not None and state.state != "running":
                raise SettingsError(f"{topology.name} is {state.state}: acker topologies resume {topology.name}")
            check_cluster(kafka, topology.manifest)
        faults = ChaosPlan(chosen, duration, every, target or (), feeds, rate, settle)
        report = ChaosRun(plan, faults, kafka, loaded.settings, broker, console).run()
    if json_:
        print_json(report.to_dict())
    else:
        for line in report.lines():
            standard_output().print(line)
    if not report.is_ok:
        raise typer.Exit(1)
