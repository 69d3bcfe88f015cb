"""The Kafka that a command works on, and what commands change there."""
