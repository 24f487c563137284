"""What the adapter logs, and what calls that share a round trip log, bears their own request."""

from __future__ import annotations

import asyncio
import logging

import pytest

from alula.errors import BadRequest, Conflict
from alula.logs import RequestFields, current_request_id, request_scope


@pytest.fixture
def stamped(caplog):
    """Records of the adapter's log, as a list that grows."""
    found = []
    handler = logging.Handler()
    handler.addFilter(RequestFields())
    handler.emit = found.append
    logger = logging.getLogger("alula.mongodb")
    logger.addHandler(handler)
    with caplog.at_level(logging.WARNING, logger.name):
        yield found
    logger.removeHandler(handler)


async def test_what_the_database_refuses_is_logged_with_the_request(service, stamped):
    with request_scope("r-1"), pytest.raises(BadRequest):
        await service().find({"pipeline": [{"$noSuchStage": {}}]})
    assert [record.request_id for record in stamped] == ["r-1"]


async def test_calls_that_share_a_round_trip_keep_their_own(service):
    notes = service()
    await notes.create({"_id": "taken"})
    seen = {}

    async def ask(name):
        with request_scope(name):
            if name == "c":
                with pytest.raises(Conflict):
                    await notes.create({"_id": "taken"})
            else:
                await notes.get("taken")
            seen[name] = current_request_id()

    await asyncio.gather(*map(ask, "abcde"))
    assert seen == {name: name for name in "abcde"}
