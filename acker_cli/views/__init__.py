"""Views for people, and output for programs."""
