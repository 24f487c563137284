"""The services of the reference app; `GROUPS` says in which order they are registered.

Users, secrets and authentication, the validated services, and those on MongoDB are not here yet.
"""

from __future__ import annotations

from tests.conformance.services import answers, calc, echo, stored, surrounded

__all__ = ["GROUPS", "SEEDS"]

GROUPS = (
    stored.memory,
    calc.calc,
    echo.echoes,
    answers.answers,
    surrounded.middleware,
    surrounded.hooked,
    stored.adapter_tests,
)

SEEDS = stored.SEEDS
