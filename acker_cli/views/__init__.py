"""Views for the terminal, and output for programs."""
