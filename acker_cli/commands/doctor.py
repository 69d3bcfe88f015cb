"""`acker doctor`."""

import typer

from acker_cli.commands.options import JSON, argument, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings


@command(
    "doctor",
    ("acker doctor", "this machine, the cluster, and all its topologies"),
    ("acker doctor word-count", "one topology, by its name in acker.topologies"),
    ("acker doctor my_module:topology", "also whether what is published is what the code says"),
    ("acker doctor word-count --strict --json", "in a pipeline: warnings fail, too"),
)
def doctor(
    loaded: LoadedSettings,
    topology: str | None = argument(
        "NAME|MODULE:TOPOLOGY", "A topology of the cluster, by its name or by its code; all unless given.", None
    ),
    strict: bool = flag("--strict", "Exit with 1 if there is a warning."),
    watch: float = option("SECONDS", "How long lag and clocks are watched.", default=3.0, min=0.5, max=600),
    json_: bool = JSON,
) -> None:
    """Find out what is wrong, and what to do.

    Checks Java, the brokers and their version, the clocks, and for each topology its topics and their settings, its
    acker workers, the processes of its components, and whether they keep up. Nothing is changed or written.

    Exit code 2 if there is a problem, 1 if there is a warning and --strict is given, else 0; notes change nothing.
    """
    from acker_cli.cluster.connection import check_properties
    from acker_cli.console import print_json, standard_error, standard_output
    from acker_cli.views.doctor import as_json, print_findings
    from inspection.doctor.checks import examine
    from inspection.doctor.facts import Facts, exit_code
    from inspection.doctor_gathering import look_at_all, with_java
    from tuple_tree.names import check_name

    declared = load_from_here(topology).manifest if topology is not None and ":" in topology else None
    wanted = declared.topology if declared else check_name("topology", topology) if topology else None
    if loaded.settings.is_embedded:
        facts = Facts(wanted=wanted)
    else:
        check_properties(loaded.settings.kafka, loaded)
        with standard_error().status("asking the cluster …") as status:
            facts = look_at_all(loaded.settings.kafka, wanted, declared, watch, status.update)
    facts = with_java(facts)
    findings = examine(facts)
    code = exit_code(findings, strict=strict)
    if json_:
        print_json(as_json(facts, findings, code))
    else:
        print_findings(standard_output(), facts, findings)
    raise typer.Exit(code)
