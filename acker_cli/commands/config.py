"""`acker config`."""

import typer

from acker_cli.console import print_json, standard_output
from acker_cli.options import ConfigOption, JsonOption, ServersOption, SetOption, examples, help_of


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="See the settings.")
    group.command(
        "show",
        help=help_of(show),
        epilog=examples(
            ("acker config show", "all settings, and where each was set"),
            ("ACKER_WORKER__LOG_INTERVAL_S=5 acker config show --json", "the same for programs"),
        ),
    )(show)
    app.add_typer(group, name="config")


def show(
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Show every setting, its value and where it was set.

    A flag goes before the environment, that before the TOML file, and that before the default. Secrets are masked.
    """
    from acker_cli.setting_layers import Flags, load

    loaded = load(Flags(config, bootstrap_servers, set_ or ()))
    rows = loaded.rows()
    if json_:
        print_json(
            {
                "config_file": str(loaded.config_file) if loaded.config_file else None,
                "settings": [{"name": name, "value": value, "source": origin} for name, value, origin in rows],
            }
        )
        return
    output = standard_output()
    if not output.is_terminal:
        for name, value, origin in rows:
            output.print(f"{name} = {_text(value)}  ({origin})", markup=False)
        return

    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("setting", "value", "set by"):
        table.add_column(heading)
    for name, value, origin in rows:
        table.add_row(Text(name, "cyan"), Text(_text(value)), Text(origin, "dim" if origin == "default" else ""))
    output.print(table)


def _text(value: object) -> str:
    return "-" if value is None else str(value)
