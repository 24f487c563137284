"""Resolvers: functions that say what single properties become, and the hooks that run them."""
