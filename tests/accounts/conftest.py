"""Stores of accounts on each database."""

from __future__ import annotations

import uuid

import pytest
from tests.accounts.building import memory_stores, stores_at


@pytest.fixture(params=["memory", "sqlite", "postgresql", "mongodb"])
async def stores(request, tmp_path):
    """The services of an application, on each adapter."""
    if request.param == "memory":
        yield memory_stores()
        return
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'accounts.sqlite'}"
    elif request.param == "postgresql":
        url = request.getfixturevalue("postgresql_schema")
    else:
        url = request.getfixturevalue("mongodb_url")
    async with stores_at(url, f"accounts_{uuid.uuid4().hex[:8]}") as found:
        yield found
