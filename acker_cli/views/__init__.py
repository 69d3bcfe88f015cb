"""What is shown to people and printed for programs."""
