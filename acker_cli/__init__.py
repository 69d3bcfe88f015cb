"""The one command, `acker`.

Rooms:

- `app`: the command itself, and how whatever goes wrong becomes one line and an exit code.
- `commands`: one file for each group of subcommands; `options`: the options that they share.
- `settings`: what can be set; `setting_layers`: where it was set; `masking`: which of it is secret.
- `console`: what is written to the terminal and how; `view`: a topology at work, live or in plain lines.
- `cluster`: the Kafka that a command works on, embedded or yours; `acls`: what its users are to be allowed.
- `acker_pool`: acker workers as supervised child processes; `lifeline`: how these end with their parent.
- `working`: what `acker worker` runs, for one topology or all; `loops`: whether loops turn; `metrics_server`: says so.
- `topology_status`: topologies as a cluster shows them; `topology_removal`: deletes one; `topology_views`: prints both.
- `interruption`: Ctrl-C and SIGTERM.
- `demo`: the word count of `acker demo`; `corpus`: its text.
- `errors`: the base class of everything raised here.

Modules that are imported to show a help text import nothing heavy; commands import what they need when they run.
"""
