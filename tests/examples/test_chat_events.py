"""Which events the example chat sends to the pages that are open."""

from __future__ import annotations

import pytest
from examples.chat.app import make_app
from tests.express.serving import living

from alula.realtime import Connection

ADA = {"_id": 1, "name": "Ada"}


class Page:
    """An open page: the link of a connection, which keeps the events it gets."""

    def __init__(self, app) -> None:
        self.events = []
        self.connection = Connection(self, provider="sse", headers={}, ip=None)
        app.add_connection(self.connection)

    def deliver(self, message) -> None:
        self.events.append((message.path, message.name, message.data))

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        """Nothing carries it."""

    def taken(self):
        """Return the events since the last call."""
        taken, self.events = self.events, []
        return taken


@pytest.fixture
async def app():
    app = make_app()
    async with living(app):
        yield app


async def test_every_page_hears_who_is_typing(app):
    page = Page(app)
    assert await app.service("messages").typing({}, user=ADA) is None
    assert page.taken() == [("messages", "typing", {"name": "Ada"})]


async def test_it_lists_who_is_here(app):
    first, second = Page(app), Page(app)
    second.connection.user = ADA
    here = await app.service("presence").find()
    assert here == [{"id": 1, "name": None}, {"id": 2, "name": "Ada"}]
    app.remove_connection(second.connection)
    assert await app.service("presence").find() == here[:1]
    assert first.taken() == []


async def test_nobody_hears_of_accounts(app):
    page = Page(app)
    await app.service("users").create({"name": "Ada"})
    assert page.taken() == []
