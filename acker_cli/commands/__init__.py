"""The subcommands: each module registers its own with `register(app)`, and imports what it needs when it runs."""
