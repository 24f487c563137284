"""`Database`: an application opens it before its services, and closes it after them."""

from __future__ import annotations

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from alula import App
from alula._local_process import ProgramMissing
from alula.adapters.mongodb import Database, MongoDBService
from alula.errors import Unavailable

UNREACHABLE = "mongodb://user:secret@127.0.0.1:1/shop?serverSelectionTimeoutMS=50"
IS_CLOSED = "the database is not open; `app.configure"


@pytest.fixture
async def name(mongodb_url):
    name = f"database_{ObjectId()}"
    yield name
    async with AsyncMongoClient(mongodb_url) as client:
        await client.drop_database(name)


class Server:
    """A server whose starts and stops are counted."""

    def __init__(self, url, error=None):
        self.url, self.error, self.calls = url, error, []

    async def start(self):
        if self.error is not None:
            raise self.error
        self.calls.append("start")

    async def stop(self):
        self.calls.append("stop")


async def test_is_open_while_the_application_runs(mongodb_url, name):
    database = Database(mongodb_url, name=name)
    app = App().configure(database)
    app.use("orders", MongoDBService(database.model("orders")))
    with pytest.raises(RuntimeError, match=IS_CLOSED):
        database.collection("orders")
    for number in (1, 2):  # it opens again
        await app.setup()
        await app.service("orders").create({"number": number})
        assert await database.collection("orders").count_documents({}) == number
        await database.ping()
        await app.teardown()
        with pytest.raises(RuntimeError, match=IS_CLOSED):
            await database.ping()


async def test_a_local_server_starts_and_stops_with_it(mongodb_url, name):
    server = Server(mongodb_url)
    database = Database(server, name=name)
    await database.open()
    await database.open()
    await database.ping()
    await database.close()
    await database.close()
    assert server.calls == ["start", "stop"]


async def test_the_name_in_the_url_and_the_options_win(mongodb_url, name):
    url = mongodb_url.replace("/?", f"/{name}?")
    database = Database(url, name="other", options={"maxPoolSize": 3})
    await database.open()
    found = database.collection("orders").database
    assert found.name == name
    assert found.client.options.pool_options.max_pool_size == 3
    await database.close()


async def test_the_last_application_closes_it(mongodb_url, name):
    database = Database(mongodb_url, name=name)
    one, two = App().configure(database), App().configure(database)
    await one.setup()
    await two.setup()
    await one.teardown()
    await database.ping()
    await two.teardown()
    with pytest.raises(RuntimeError, match=IS_CLOSED):
        await database.ping()


async def test_an_application_does_not_start_without_it():
    server = Server(UNREACHABLE)
    app = App().configure(Database(server, name="shop", setting="SHOP_URL"))
    with pytest.raises(Unavailable) as caught:
        await app.setup()
    assert caught.value.__notes__[-1] == "the URL comes from SHOP_URL"
    assert "secret" not in str(caught.value.__notes__)
    assert server.calls == ["start", "stop"]


async def test_closes_if_the_services_cannot_be_set_up(mongodb_url, name):
    class Broken(MongoDBService):
        async def setup(self, app, path):
            await database.ping()
            raise ValueError("broken")

    server = Server(mongodb_url)
    database = Database(server, name=name)
    app = App().configure(database)
    app.use("orders", Broken(database.model("orders")))
    with pytest.raises(ValueError, match="broken"):
        await app.setup()
    assert server.calls == ["start", "stop"]


@pytest.mark.parametrize(
    ("setting", "notes"), [(None, []), ("SHOP_URL", ["or set SHOP_URL to the URL of a MongoDB"])]
)
async def test_without_a_program_the_error_names_the_setting(setting, notes):
    database = Database(Server("", ProgramMissing("no mongod")), name="shop", setting=setting)
    with pytest.raises(ProgramMissing, match="no mongod") as caught:
        await database.open()
    assert getattr(caught.value, "__notes__", []) == notes


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "postgresql://user:secret@host/shop",
            "^'postgresql' is not a URL of MongoDB",
        ),
        ("mongodb://user:secret@host", "^no database is named; give its name"),
        (Server(""), "^no database is named; give its name"),
    ],
)
def test_what_is_not_valid_is_an_error_at_once(url, message):
    with pytest.raises(ValueError, match=message) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


def test_its_repr_has_no_password():
    assert repr(Database("mongodb://user:secret@host/shop")) == "<Database mongodb shop>"
