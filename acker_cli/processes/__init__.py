"""What runs: components and acker workers as processes, their health, and signals."""
