"""Counts the processor instructions of requests, and holds them against a committed baseline."""
