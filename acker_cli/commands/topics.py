"""`acker topics`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from acker_cli.commands.options import JSON, REFERENCE, command, flag, load_from_here, option
from acker_cli.console import print_json, standard_output
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from spout_sdk import Topology

_BY: Final = {"command": "does     ", "user": "then do  ", "refused": "refused  "}
"""How the steps of a plan begin, by their `by`."""


@command(
    "create",
    ("acker topics create my_module:topology", "before a topology runs on a cluster for the first time"),
    ("acker topics create my_module:topology --set topics.replication_factor=3", "with three copies of each topic"),
    ("acker topics create my_module:topology --dry-run", "the steps of a change"),
    ("acker topics create my_module:topology --create-sources 6", "its sources and targets as well, with 6 partitions"),
    ("acker topics create my_module:topology --wait 60", "when the brokers may still be starting"),
)
def create(
    loaded: LoadedSettings,
    reference: str = REFERENCE,
    wait: float = option(
        "SECONDS", "Wait this long until there are as many brokers as each topic has copies.", default=0.0, min=0
    ),
    dry_run: bool = flag("--dry-run", "Show the steps of the change without changing anything."),
    create_sources: int | None = option(
        "PARTITIONS",
        "Also create missing topics that spouts read, and that KafkaBolts and outcomes write to.",
        "--create-sources",
        min=1,
    ),
    replace: bool = flag("--replace", "Replace another program that has the same name."),
    force: bool = flag("--force", "Publish changed fields, codecs or guarantees even if processes are running."),
    json_: bool = JSON,
) -> None:
    """Create the topics that a topology needs, and publish its manifest.

    Existing topics are checked and not changed. Acker workers start to serve the topology by its manifest. If it is
    already published, the command prints the steps of the change: its own, and then yours, such as processes to
    restart. A change that running processes do not support is rejected without any effect, and so is code that has no
    component of the published topology, which is another program of that name; exit code 1.
    """
    from acker_cli.cluster.change_plan import Step
    from acker_cli.cluster.publishing import check_accepted, grown_inboxes, planned
    from acker_cli.console import log_to_stderr
    from inspection.notation import counted
    from kafka_clients.catalogue import Catalogue
    from kafka_clients.new_topics import create_missing
    from tuple_tree.topics import topic_specs

    log_to_stderr(loaded.settings.log_level)
    topology = load_from_here(reference)
    manifest = topology.manifest
    kafka = loaded.cluster()
    catalogue = Catalogue(kafka)
    copies = loaded.settings.topics.replication_factor
    if wait:
        catalogue.await_brokers(max(1, copies), wait)
    steps = planned(kafka, catalogue, manifest, force=force, replace=replace)
    known = catalogue.topics()
    missing = {topic: use for topic, use in _topics_of_users(topology).items() if topic not in known}
    others = dict.fromkeys(missing, create_sources) if create_sources else {}
    steps += [
        Step("command", f"create topic {topic}, which {missing[topic]}, with {counted(partitions, 'partition')}")
        for topic, partitions in others.items()
    ]
    output = standard_output()
    if dry_run:
        if json_:
            print_json({"topology": manifest.topology, "steps": [asdict(step) for step in steps]})
        for step in () if json_ else steps:
            output.print(f"{_BY[step.by]}  {step.text}", soft_wrap=True)
        if any(step.by == "refused" for step in steps):
            raise typer.Exit(1)
        return
    check_accepted(manifest.topology, steps)
    for topic, partitions in grown_inboxes(catalogue, manifest).items():
        catalogue.add_partitions(topic, partitions)
    # First, so that a spout finds its source.
    sources = create_missing(catalogue, others, copies)
    created = catalogue.create_topics(manifest, copies)
    catalogue.publish(manifest)
    if json_:
        existing = [spec.name for spec in topic_specs(manifest) if spec.name not in created]
        todo = [step.text for step in steps if step.by == "user"]
        print_json({"topology": manifest.topology, "created": [*created, *sources], "existing": existing, "todo": todo})
        return
    for spec in topic_specs(manifest):
        outcome = "created" if spec.name in created else "exists"
        output.print(f"{outcome}  {spec.name}  {counted(spec.partitions, 'partition')}")
    for topic in sources:
        output.print(f"created  {topic}, which {missing[topic]}  {counted(others[topic], 'partition')}")
    output.print(f"published the manifest of {manifest.topology}")
    for step in steps:
        if step.by == "user":
            output.print(f"{_BY[step.by]}  {step.text}", soft_wrap=True)
    for topic, use in missing.items():
        if topic not in sources:
            output.print(
                f"missing  {topic}, which {use}: create it, or use --create-sources", style="yellow", soft_wrap=True
            )


def _topics_of_users(topology: "Topology") -> dict[str, str]:
    """The topics outside of a topology that its components use, and how; users create them."""
    from tuple_tree.topics import topic_specs

    found: dict[str, str] = {}
    for spout, topics in topology.sources.items():
        for topic in (topics,) if isinstance(topics, str) else topics or ():
            found.setdefault(topic, f"{spout} reads")
    for bolt, topic in topology.kafka_targets.items():
        found.setdefault(topic, f"{bolt} writes to")
    for spout, topic in topology.manifest.outcome_topics.items():
        found.setdefault(topic, f"{spout} writes outcomes to")
    own = {spec.name for spec in topic_specs(topology.manifest)}
    return {topic: use for topic, use in found.items() if topic not in own}


@command(
    "acls",
    ("acker topics acls my_module:topology", "all roles, with a user for each"),
    ("acker topics acls my_module:topology --role split", "one component"),
    ("acker topics acls my_module:topology --role viewer", "for top, dashboard, trace and doctor"),
    (
        "acker topics acls my_module:topology --principal 'User:CN={topology}.{role},O=Example'",
        "for users with certificates",
    ),
    ("acker topics acls my_module:topology --json", "the same for programs"),
)
def acls(
    loaded: LoadedSettings,
    reference: str = REFERENCE,
    role: list[str] | None = option("NAME", "Only this component, or operator, acker, viewer or client; repeatable."),
    principal: str = option("TEMPLATE", "The principal of each role.", default="User:{topology}.{role}"),
    operator: str | None = option("PRINCIPAL", "The principal that creates the topics; by default from the template."),
    command_config: Path = option(
        "FILE", "The file with the client properties of kafka-acls.", default=Path("admin.properties")
    ),
    json_: bool = JSON,
) -> None:
    """Print the ACLs that each role of a topology needs, as kafka-acls commands.

    The roles are the operator, who creates the topics, the acker workers, and each spout and bolt; with --role also the
    viewer, who inspects the topology, and the client, who sends messages and waits for their outcomes. The command
    contacts no broker: check the output, and run it as a user that may alter ACLs.
    """
    from acker_cli.cluster.acls import Principals, as_json, chosen_roles, commands
    from kafka_clients.access import client_role, roles, viewer_role

    topology = load_from_here(reference)
    every = roles(topology.manifest, topology.sources, topology.kafka_targets)
    # A component may have such a name, and then is what is meant.
    known = {each.name for each in every}
    others = (viewer_role(topology.manifest, topology.sources), client_role(topology.manifest, topology.sources))
    every += [each for each in others if each.name in (role or ()) and each.name not in known]
    principals = Principals(topology.name, principal, operator).checked(every)
    chosen = chosen_roles(every, role or ())
    if json_:
        print_json({"topology": topology.name, "roles": as_json(chosen, principals)})
        return
    servers = str(loaded.settings.kafka.get("bootstrap.servers") or "localhost:9092")
    output = standard_output()
    for line in commands(
        chosen, principals, ["kafka-acls", "--bootstrap-server", servers, "--command-config", str(command_config)]
    ):
        output.print(line)
