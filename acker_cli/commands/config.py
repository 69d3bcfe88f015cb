"""`acker config`."""

from acker_cli.commands.options import JSON, command
from acker_cli.settings import DEFAULT, LoadedSettings


@command(
    "show",
    ("acker config show", "all settings, and where each was set"),
    ("ACKER_WORKER__LOG_INTERVAL_S=5 acker config show --json", "the same for programs"),
)
def show(loaded: LoadedSettings, json_: bool = JSON) -> None:
    """Show every setting, its value and where it was set.

    A flag goes before the environment, that before the TOML file, and that before the default. Secrets are masked.
    """
    from rich.text import Text

    from acker_cli.console import print_json, print_table, standard_output

    rows = loaded.rows()
    if json_:
        settings = [{"name": name, "value": value, "source": origin} for name, value, origin in rows]
        print_json({"config_file": str(loaded.config_file) if loaded.config_file else None, "settings": settings})
        return
    output = standard_output()
    shown = [(name, "-" if value is None else str(value), origin) for name, value, origin in rows]
    if output.is_terminal:
        by = {DEFAULT: Text(DEFAULT, "dim")}
        print_table(
            output, ("setting", "value", "set by"), ((name, value, by.get(at, at)) for name, value, at in shown)
        )
        return
    for name, value, origin in shown:
        output.print(f"{name} = {value}  ({origin})")
