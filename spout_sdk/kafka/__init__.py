"""Producers, consumers, their settings, offsets of groups, and checks of topics and permissions."""
