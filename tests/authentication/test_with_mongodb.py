"""Users in MongoDB: ids that are object ids, hashes that are stored, and found again."""

from __future__ import annotations

import uuid

import pytest
from pymongo import AsyncMongoClient
from tests.authentication.building import BCRYPT, login, make_app

from alula import Params
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.errors import NotAuthenticated


@pytest.fixture
async def users(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        database = client.get_database(f"alula_authentication_{uuid.uuid4().hex[:8]}")
        yield database["users"]
        await client.drop_database(database)


async def test_users_of_another_application_sign_in(users):
    await users.insert_one({"email": "ada@example.com", "password": BCRYPT})
    app = make_app(MongoDBService(users))
    await app.setup()
    result = await app.service("authentication").create(login(), provider="rest")
    stored = await users.find_one({})
    assert result["user"] == {"_id": stored["_id"], "email": "ada@example.com"}
    assert result["authentication"]["payload"]["sub"] == str(stored["_id"])
    assert stored["password"].startswith("$argon2id$")

    service = app.service("authentication").service
    proof = {"strategy": "jwt", "accessToken": result["accessToken"]}
    found = await service.authenticate(proof, Params(), "jwt")
    assert found["user"]["_id"] == stored["_id"]
    assert await app.service("authentication").create(login())

    for email in ({"$ne": ""}, {"$regex": "."}, ["ada@example.com"], "ada@example.com\x00"):
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(login(email))
    for subject in ("1", "0" * 24, "$where", "x" * 24):
        token = service.create_access_token({}, subject)
        with pytest.raises(NotAuthenticated, match="user of these credentials"):
            await service.authenticate({**proof, "accessToken": token}, Params(), "jwt")


async def test_another_spelling_of_an_id_ends_the_sessions_of_its_user(users):
    await users.insert_one({"email": "ada@example.com", "password": BCRYPT})
    app = make_app(MongoDBService(users), sessions="sessions")
    app.use("sessions", MemoryService(), methods=[])
    await app.setup()
    result = await app.service("authentication").create(login())
    assert len(await app.service("sessions").find()) == 1
    spelled = str(result["user"]["_id"]).upper()
    await app.service("users").patch(spelled, {"password": BCRYPT})
    assert await app.service("sessions").find() == []
