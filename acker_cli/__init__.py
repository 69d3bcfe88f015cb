"""The one command, `acker`.

- `app`: the command itself, and how an error becomes one line and an exit code; `errors`: the base class of them.
- `commands`: a file for each group of subcommands; `options`: how one is declared; `plain_help`:
  no types of options without a value.
- `settings`: what can be set (`sections`), how it is spelled, and where it was set (`layers`).
- `cluster`: the embedded broker and the topics of `--local` (`local`), and what commands do on a cluster: `acls`,
  the `publishing` of a manifest by its `change_plan`, the `removal` of a topology, the
  `replay` of dead letters; the export and reset of a state (`state_export`, `state_reset`).
- `processes`: what runs: a topology or a component (`running`), `acker_pool`, `acker worker` (`worker`); its figures
  and health (`own_figures`), and metrics (`metrics_server`).
- `gateway`: messages over HTTP, with a client.
- `chaos`: faults in a running topology, and the check after them.
- `views`: the `screen` of a topology's figures, with the output of processes above it (`live`); `findings` and
  `states` in words, and tuple trees (`trace`).
- `console`: the terminal; `interruption`: Ctrl-C and SIGTERM.
- `demo`: the word count of `acker demo`; `corpus`: its text; `project`: the files that `acker init` writes.

Modules that are imported to show a help text import nothing heavy; commands import what they need when they run.
"""
