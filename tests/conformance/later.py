"""Recorded cases that are not due yet, each with the topic that will bring what it needs."""

from __future__ import annotations

import re

from tests.conformance.replay import Case

DATABASE = "the document database"
SCHEMAS = "schemas"
AUTHENTICATION = "authentication"

TOPIC_OF_SERVICE = {
    "docs": DATABASE,
    "pages": DATABASE,
    "slugs": DATABASE,
    "codes": DATABASE,
    "at-mongo": DATABASE,
    "events": SCHEMAS,
    "validated": SCHEMAS,
    "validated-pages": SCHEMAS,
    "validated-safe": SCHEMAS,
}
"""Services that are not registered yet."""

TOPIC_OF_AREA = {
    "authenticate-hook": AUTHENTICATION,
    "authentication": AUTHENTICATION,
    "users": AUTHENTICATION,
}

TOPIC_OF_CASE = {
    ("custom-methods", "authentication service has no get"): AUTHENTICATION,
    ("html-errors", "401"): AUTHENTICATION,
    ("route-params", "users/:id still reaches the users service"): AUTHENTICATION,
    ("service-middleware", "express route with authentication"): AUTHENTICATION,
    ("service-middleware", "express route without authentication"): AUTHENTICATION,
    ("service-middleware", "express route with broken token"): AUTHENTICATION,
    ("service-middleware", "express route with expired token"): AUTHENTICATION,
}
"""Single cases of areas that are due; all else on services in memory has to pass."""


def topic_of(case: Case) -> str | None:
    """Return the topic that a case has to wait for, None where it is due."""
    topic = TOPIC_OF_CASE.get((case.area, case.name)) or TOPIC_OF_AREA.get(case.area)
    services = (re.split(r"[/?]", step["request"]["path"])[1] for step in case.steps)
    return topic or next(filter(None, map(TOPIC_OF_SERVICE.get, services)), None)
