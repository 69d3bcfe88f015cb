"""The builder, what it builds, and its checks."""
