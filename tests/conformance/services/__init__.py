"""The services of the reference app; `GROUPS` says in which order they are registered.

Those of `DATABASE_GROUPS` follow where there is a MongoDB, and get its database beside the app.
"""

from __future__ import annotations

from tests.conformance.services import (
    accounts,
    answers,
    calc,
    database,
    echo,
    stored,
    surrounded,
    validated,
)

__all__ = ["DATABASE_GROUPS", "GROUPS", "SEEDS"]

GROUPS = (
    stored.memory,
    calc.calc,
    echo.echoes,
    answers.answers,
    surrounded.middleware,
    surrounded.hooked,
    stored.adapter_tests,
    accounts.accounts,
    validated.validated,
)

DATABASE_GROUPS = (database.documents, database.adapter_tests, validated.events)

SEEDS = {**stored.SEEDS, **accounts.SEEDS, **validated.SEEDS}
