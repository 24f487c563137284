"""Migrations of generated applications: Alembic without configuration of its own."""

try:
    import alembic as _alembic  # noqa: F401  # checks that it is installed
except ImportError as error:
    raise ImportError(
        "migrations need alembic, which is not installed; install it with:"
        " pip install 'alula[migrations]'"
    ) from error

from alula._cli.migrations.migrations import Migrations

__all__ = ["Migrations"]
