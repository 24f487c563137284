"""Alula measured beside its peers, in one run, on one machine."""
