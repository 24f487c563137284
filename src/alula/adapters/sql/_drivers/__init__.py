"""Drivers: a pool for PostgreSQL, threads for SQLite, and the transactions of both."""
