"""The cases for live lists, on each store and over each transport."""

from __future__ import annotations

import pytest
from tests.conformance.live.application import GIVEN, cases_in
from tests.conformance.live.runner import run_case

CASES = cases_in(GIVEN)
WAYS = [
    (store, transport)
    for store in ("memory", "sqlite", "postgresql", "mongodb")
    for transport in ("lists", "sse", "socketio")
    if transport == "lists" or store == "memory"
]


@pytest.fixture
def url(request, tmp_path, store):
    if store == "sqlite":
        return f"sqlite:///{tmp_path / 'live.sqlite'}"
    if store == "postgresql":
        return request.getfixturevalue("postgresql_schema")
    return request.getfixturevalue("mongodb_url") if store == "mongodb" else ""


@pytest.mark.parametrize(
    ("store", "transport", "case"),
    [
        pytest.param(store, transport, case, id=f"{store}-{transport}-{case['id']}")
        for store, transport in WAYS
        for case in CASES
        if store in case["stores"]
    ],
)
async def test_a_list_stays_true(store, transport, case, url):
    assert await run_case(case, store, url, transport) == []
