"""Alembic runs this file for each of its commands; what it does is given by `Migrations`."""

from alembic import context

if hasattr(context, "config"):  # not where it is imported as a module, as tools do
    context.config.attributes["run"](context)
