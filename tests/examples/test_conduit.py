"""The blog of RealWorld passes the public collection of requests on both SQL databases."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from examples.conduit.app import make_app
from tests.authentication.building import quick_passwords
from tests.conformance.realworld.replay import differences, folders, replay

from alula._cli.commands.openapi import describe_as_json
from alula.openapi import describe, typescript

SECRET = "a secret of thirty-two bytes or more"


@pytest.fixture
async def client(sql_url):
    app = make_app(sql_url, SECRET, quick_passwords())
    server = await app.listen(0)
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client
    server.close()
    await server.wait_closed()


async def test_passes_the_public_collection(client):
    """In one test: each folder needs users, and each user a slow password hash."""
    steps = 0
    for name, exchange in folders().items():
        assert await replay(exchange, client) == [], name
        steps += len(exchange)
    assert steps == 154


def test_no_path_is_unknown(sql_url):
    app = make_app(sql_url, SECRET, quick_passwords())
    document = json.loads(describe_as_json(app))
    code = typescript(app)
    operations = [
        operation
        for item in document["paths"].values()
        for verb, operation in item.items()
        if verb != "parameters"
    ]
    assert (len(document["paths"]), len(operations)) == (12, 19)
    for operation in operations:
        responses = operation["responses"].values()
        contents = [each["content"] for each in responses if "content" in each]
        if contents:
            assert "$ref" in contents[0]["application/json"]["schema"], operation["operationId"]
        else:
            assert "204" in operation["responses"], operation["operationId"]
    error = document["components"]["schemas"]["Error"]
    assert list(error["properties"]) == ["errors"]
    assert "Promise<unknown>" not in code
    assert "created: unknown" not in code


async def register(client, name):
    user = {"username": name, "email": f"{name}@example.com", "password": "of nobody else"}
    response = await client.post("/api/users", json={"user": user})
    return {"authorization": f"Token {response.json()['user']['token']}"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/users"), ("POST", "/authentication"), ("GET", "/favorites"), ("GET", "/articles")],
)
async def test_the_tables_are_closed(client, method, path):
    response = await client.request(method, path, json={} if method == "POST" else None)
    assert response.status_code in {404, 405}


async def test_nobody_sees_a_password(client):
    ada = await register(client, "ada")
    article = {"article": {"title": "T", "description": "d", "body": "b"}}
    created = await client.post("/api/articles", json=article, headers=ada)
    path = f"/api/articles/{created.json()['article']['slug']}"
    for seen in [
        created,
        await client.get("/api/user", headers=ada),
        await client.get("/api/profiles/ada"),
        await client.get(path),
        await client.post(f"{path}/comments", json={"comment": {"body": "c"}}, headers=ada),
    ]:
        assert seen.is_success
        assert "$argon2" not in seen.text
        assert "password" not in seen.text


async def test_a_wrong_token_is_refused_where_none_is_needed(client):
    wrong = {"authorization": "Token x"}
    response = await client.get("/api/articles", headers=wrong)
    assert (response.status_code, response.json()) == (401, {"errors": {"token": ["is invalid"]}})


async def test_two_likes_at_once_count_once(client):
    ada = await register(client, "ada")
    article = {"article": {"title": "T", "description": "d", "body": "b"}}
    created = await client.post("/api/articles", json=article, headers=ada)
    path = f"/api/articles/{created.json()['article']['slug']}/favorite"
    await asyncio.gather(*(client.post(path, headers=ada) for _ in range(5)))
    response = await client.post(path, headers=ada)
    assert response.json()["article"]["favoritesCount"] == 1


def test_is_described():
    paths = describe(make_app("sqlite://", SECRET))["paths"]
    assert len([path for path in paths if path.startswith("/api/")]) >= 10


def test_the_replayer_sees_differences():
    want = {"a": "{{integer >= 1}}", "b": ["{{slug}}", "{{...}}"], "c": "{{absent}}", "d": None}
    assert list(differences(want, {"a": 1, "b": ["x", 2], "d": None})) == []
    assert len([*differences(want, {"a": 0, "b": [], "c": 1, "d": ""})]) == 4
    assert len([*differences({"$unordered": [1, 2]}, [2, 3, 1])]) == 1
    assert len([*differences({"$type": "{{date}}", "$not": "2026-01-01"}, "2026-01-01")]) == 1
    assert len([*differences({"$includes": ["x"], "$items": "{{string}}"}, [1])]) == 2
