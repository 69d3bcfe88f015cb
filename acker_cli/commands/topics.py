"""`acker topics`."""

import typer

from acker_cli.console import print_json, standard_output
from acker_cli.options import ConfigOption, JsonOption, ServersOption, SetOption, TopologyArgument, examples, help_of


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Create and check a topology's topics.")
    group.command(
        "create",
        help=help_of(create),
        epilog=examples(
            ("acker topics create my_module:topology", "before a topology runs on a cluster for the first time"),
            (
                "acker topics create my_module:topology --set topics.replication_factor=3",
                "with three copies of each topic",
            ),
        ),
    )(create)
    group.command(
        "show",
        help=help_of(show),
        epilog=examples(
            ("acker topics show my_module:topology", "each topic, and what is wrong with it"),
            ("acker topics show my_module:topology --json", "the same for programs"),
        ),
    )(show)
    app.add_typer(group, name="topics")


def create(
    reference: TopologyArgument,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Create the topics that a topology needs, and publish its manifest.

    What exists is checked and left as it is. Acker workers learn from the manifest what there is to do.
    """
    from acker_cli.cluster import configured_cluster
    from acker_cli.setting_layers import Flags, load
    from acker_cli.topology_reference import load_from_here
    from acker_worker.catalogue import Catalogue
    from tuple_tree.topics import topic_specs

    loaded = load(Flags(config, bootstrap_servers, set_ or ()))
    manifest = load_from_here(reference).manifest
    catalogue = Catalogue(configured_cluster(loaded).kafka)
    created = catalogue.create_topics(manifest, loaded.settings.topics.replication_factor)
    catalogue.publish(manifest)
    if json_:
        existing = [spec.name for spec in topic_specs(manifest) if spec.name not in created]
        print_json({"topology": manifest.topology, "created": created, "existing": existing})
        return
    output = standard_output()
    for spec in topic_specs(manifest):
        said = "created" if spec.name in created else "exists"
        output.print(f"{said}  {spec.name}  {spec.partitions} partitions", markup=False)
    output.print(f"published the manifest of {manifest.topology}", markup=False)


def show(
    reference: TopologyArgument,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the topics that a topology needs, and what is wrong with them.

    Exit code 1 if one is missing or is not as it has to be.
    """
    from acker_cli.cluster import configured_cluster
    from acker_cli.setting_layers import Flags, load
    from acker_cli.topology_reference import load_from_here
    from acker_worker.catalogue import Catalogue
    from tuple_tree.topics import topic_specs

    loaded = load(Flags(config, bootstrap_servers, set_ or ()))
    manifest = load_from_here(reference).manifest
    specs = topic_specs(manifest)
    catalogue = Catalogue(configured_cluster(loaded).kafka)
    existing = catalogue.topics()
    problems: dict[str, list[str]] = {}
    for problem in catalogue.problems(specs):
        problems.setdefault(problem.topic, []).append(str(problem))
    if json_:
        topics = [
            {
                "name": spec.name,
                "partitions": existing.get(spec.name),
                "expected_partitions": spec.partitions,
                "problems": problems.get(spec.name, []),
            }
            for spec in specs
        ]
        print_json({"topology": manifest.topology, "topics": topics})
    else:
        output = standard_output()
        for spec in specs:
            found = problems.get(spec.name)
            output.print("\n".join(found) if found else f"{spec.name} has {spec.partitions} partitions", markup=False)
    if problems:
        raise typer.Exit(1)
