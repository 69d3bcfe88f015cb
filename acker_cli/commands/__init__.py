"""The subcommands: each module declares its own, and imports what it needs when it runs."""
