"""Recorded cases that are not due yet, each with the topic that will bring what it needs."""

from __future__ import annotations

import re

from tests.conformance.replay import Case

TOPIC_OF_SERVICE: dict[str, str] = {}
"""Services that are not registered yet."""

TOPIC_OF_AREA: dict[str, str] = {}

TOPIC_OF_CASE: dict[tuple[str, str], str] = {}
"""Single cases of areas that are due; all else on services in memory has to pass."""


ON_MONGODB = frozenset({"docs", "pages", "slugs", "codes", "at-mongo", "events"})
"""Services that are there where a MongoDB is."""


def services_of(case: Case) -> set[str]:
    """Return the names of the services that a case calls."""
    return {re.split(r"[/?]", step["request"]["path"])[1] for step in case.steps}


def topic_of(case: Case) -> str | None:
    """Return the topic that a case has to wait for, None where it is due."""
    topic = TOPIC_OF_CASE.get((case.area, case.name)) or TOPIC_OF_AREA.get(case.area)
    return topic or next(filter(None, map(TOPIC_OF_SERVICE.get, services_of(case))), None)
