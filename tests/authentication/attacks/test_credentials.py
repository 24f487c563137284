"""Attempts to sign in with what is no user name and password, and with more than that."""

from __future__ import annotations

import json

import pytest
from tests.authentication.attacks.target import Target, login

REFUSED = {
    "name": "NotAuthenticated",
    "message": "Invalid login",
    "code": 401,
    "className": "not-authenticated",
}

NO_TEXTS = [
    {"$ne": "x"},
    {"$gt": ""},
    {"$gte": ""},
    {"$in": ["ada@example.com"]},
    {"$nin": []},
    {"$regex": ".*"},
    {"$foo": ""},
    {"$where": "1"},
    {"$or": [{"email": "ada@example.com"}]},
    {},
    [],
    ["ada@example.com"],
    [["right"]],
    None,
    True,
    False,
    0,
    1,
    12345,
    -0.5,
    1e308,
    "",
]


@pytest.fixture(scope="module")
async def target():
    return await Target().start()


@pytest.mark.parametrize("value", NO_TEXTS, ids=repr)
async def test_what_is_no_text_is_neither_a_user_name_nor_a_password(target, value):
    for data in (login(email=value), login(password=value), login(value, value)):
        answer = await target.ask("POST", "/authentication", data)
        assert (answer.status, answer.json) == (401, REFUSED)


@pytest.mark.parametrize("name", ["email", "password"])
async def test_what_is_missing_is_refused_like_what_is_wrong(target, name):
    data = login()
    del data[name]
    answer = await target.ask("POST", "/authentication", data)
    assert (answer.status, answer.json) == (401, REFUSED)


@pytest.mark.parametrize(
    "email",
    [
        "ADA@example.com",
        " ada@example.com",
        "ada@example.com\0",
        "ada@example.com%00",
        "ada\uff20example.com",
        "a\u0301da@example.com",
        "ada@example.com' OR '1'='1",
        '{"$ne": ""}',
        "__proto__",
        "*",
        "1",
    ],
)
async def test_another_spelling_is_another_user(target, email):
    answer = await target.sign_in(email)
    assert (answer.status, answer.json) == (401, REFUSED)


@pytest.mark.parametrize(
    "password", ["Right", "right ", " right", "right\0", "right\0x", "righ", "rightx", "\uff52ight"]
)
@pytest.mark.parametrize("email", ["ada@example.com", "bob@example.com"])
async def test_another_spelling_is_another_password(target, email, password):
    answer = await target.sign_in(email, password)
    assert (answer.status, answer.json) == (401, REFUSED)


async def test_a_hash_is_no_password_and_a_stored_password_no_hash():
    target = await Target().start()
    users = target.app.service("users").service
    wrong = [
        "right", "", "$2b$", "$2b$04$", "$argon2id$", "$argon2id$v=19$", "$5$x$y", None, 5,
        ["right"], {"right": 1}, "$2b$99$" + "a" * 53, "$2z$04$" + "a" * 53,
    ]  # fmt: skip
    for hashed in wrong:
        record = await users.create({"email": "x@example.com", "password": hashed}, {})
        for password in ("right", "wrong", str(hashed)):
            answer = await target.sign_in("x@example.com", password)
            assert (answer.status, answer.json) == (401, REFUSED)
        await users.remove(record["id"], {})


@pytest.mark.parametrize("name", ["email", "password"])
async def test_a_megabyte_of_text_is_refused_without_being_hashed(target, name, monkeypatch):
    local = target.app.service("authentication").service.strategy("local")
    hashed = []

    async def check(password, stored, **options):
        hashed.append(len(password))
        return False

    monkeypatch.setattr(local.passwords, "check", check)
    big = "x" * 1_000_000
    answer = await target.ask("POST", "/authentication", {**login(), name: big})
    assert (answer.status, answer.json) == (401, REFUSED)
    assert max(hashed, default=0) <= 4096


async def test_a_megabyte_of_a_password_is_not_stored(target):
    data = {"email": "new@example.com", "password": "x" * 1_000_000}
    answer = await target.ask("POST", "/users", data)
    assert answer.status == 400
    assert len(answer.body) < 1000


@pytest.mark.parametrize("password", [None, 5, [], {}, "", ["right"], {"$ne": ""}])
async def test_what_is_no_password_is_not_stored(target, password):
    answer = await target.ask("POST", "/users", {"email": "new@example.com", "password": password})
    assert answer.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"[{}]",
        b'[{"strategy": "local", "email": "ada@example.com", "password": "right"}]',
        b'{"strategy": null}',
        b'{"strategy": ["local"]}',
        b'{"strategy": {"$ne": "x"}}',
        b'{"strategy": "constructor"}',
        b'{"strategy": "__class__"}',
        b'{"strategy": "LOCAL"}',
        b'{"strategy": "local\\u0000"}',
        b"{}",
    ],
)
async def test_what_names_no_strategy_is_refused(target, body):
    answer = await target.ask("POST", "/authentication", body)
    assert answer.status == 401
    assert answer.json["message"].startswith("Invalid authentication information")


async def test_the_last_of_two_equal_keys_counts_for_every_check(target):
    twice = b'{"strategy": "local", "email": {"$ne": 1}, "password": "wrong", %s}'
    right = b'"email": "ada@example.com", "password": "right"'
    assert (await target.ask("POST", "/authentication", twice % right)).status == 201
    wrong = b'{"strategy": "local", %s, "email": {"$ne": 1}}'
    assert (await target.ask("POST", "/authentication", wrong % right)).status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"strategy=local&email[$ne]=x&password=right",
        b"strategy=local&email=ada@example.com&email=bob@example.com&password=right",
        b"strategy=local&email[]=ada@example.com&password=right",
        b"strategy=local&email=ada@example.com&password[$ne]=right",
        b"strategy[]=local&email=ada@example.com&password=right",
    ],
)
async def test_brackets_of_a_form_bring_no_operators(target, body):
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await target.ask("POST", "/authentication", body, kind)
    assert answer.status == 401


@pytest.mark.parametrize(
    "query",
    [
        "$limit=0",
        "$skip=1",
        "email=bob@example.com",
        "email[$ne]=ada@example.com",
        "id=2",
        "$or[0][id]=2",
        "$select[]=password",
        "$select[]=id",
        "$sort[id]=-1",
        "$foo=1",
        "role=nobody",
        "user=2",
        "provider=",
        "authenticated=true",
        "access_token=x",
        "payload[role]=admin",
    ],
)
async def test_the_query_of_a_sign_in_changes_nothing(target, query):
    answer = await target.ask("POST", f"/authentication?{query}", login())
    assert answer.status == 201
    assert answer.json["user"] == {"email": "ada@example.com", "id": 1, "role": "admin"}
    assert answer.json["authentication"]["payload"].keys() == {"iat", "exp", "aud", "sub", "jti"}
    refused = await target.ask("POST", f"/authentication?{query}", login(password="wrong"))
    assert (refused.status, refused.json) == (401, REFUSED)


@pytest.mark.parametrize(
    "more",
    [
        {"user": {"id": 2}},
        {"accessToken": "x"},
        {"authentication": {"strategy": "jwt", "payload": {"sub": "2"}}},
        {"payload": {"role": "admin", "exp": 4_000_000_000}},
        {"authenticated": True},
        {"provider": None},
        {"sub": "2"},
        {"id": 2},
        {"jwtOptions": {"expiresIn": "10y"}},
        {"secret": "mine"},
        {"authStrategies": ["none"]},
        {"query": {"id": 2}},
        {"params": {"provider": None}},
    ],
    ids=str,
)
async def test_more_than_a_proof_changes_nothing(target, more):
    answer = await target.ask("POST", "/authentication", {**login(), **more})
    assert answer.status == 201
    assert answer.json.keys() == {"accessToken", "authentication", "user"}
    assert answer.json["user"]["id"] == 1
    payload = answer.json["authentication"]["payload"]
    assert payload.keys() == {"iat", "exp", "aud", "sub", "jti"}
    assert (payload["sub"], payload["exp"] - payload["iat"]) == ("1", 86_400)


async def test_registration_takes_over_what_an_application_lets_it_take_over():
    target = await Target().start()

    def keep(context):
        context.data = {name: context.data[name] for name in ("email", "password")}

    target.app.service("users").hooks(before={"create": [keep]})
    data = {
        "email": "eve@example.com", "password": "right", "role": "admin", "isAdmin": True, "id": 1,
        "roles": ["admin"], "__proto__": {"role": "admin"}, "createdAt": 0,
    }  # fmt: skip
    answer = await target.ask("POST", "/users", data)
    assert (answer.status, answer.json) == (201, {"email": "eve@example.com", "id": 3})
    signed_in = await target.sign_in("eve@example.com")
    assert signed_in.json["user"] == {"email": "eve@example.com", "id": 3}


async def test_a_hash_of_ones_own_is_a_password_like_any_other(target):
    stolen = target.app.service("users").service
    hashed = (await stolen.get(1, {}))["password"]
    data = {"email": "mallory@example.com", "password": hashed}
    assert (await target.ask("POST", "/users", data)).status == 201
    assert (await target.sign_in("mallory@example.com", "right")).status == 401
    assert (await target.sign_in("mallory@example.com", hashed)).status == 201


async def test_every_refusal_is_the_same_to_the_last_byte(target):
    answers = [
        await target.sign_in("nobody@example.com", "wrong"),
        await target.sign_in("nobody@example.com", "right"),
        await target.sign_in("ada@example.com", "wrong"),
        await target.sign_in("bob@example.com", "wrong"),
        await target.sign_in({"$ne": ""}, "right"),
        await target.sign_in("ada@example.com", None),
    ]
    first = answers[0]
    for answer in answers:
        assert (answer.status, answer.headers, answer.body) == (401, first.headers, first.body)
    assert json.loads(first.body) == REFUSED


@pytest.mark.parametrize("email", ["nobody", "@", " ", '{"$ne": 1}'])
async def test_a_schema_of_the_users_does_not_say_what_their_names_look_like(email):
    target = await Target().start()
    target.add_schema()
    unknown, refused = await target.sign_in("nobody@example.com"), await target.sign_in(email)
    assert (refused.status, refused.headers, refused.body) == (401, unknown.headers, unknown.body)
    assert (await target.sign_in("ada@example.com")).status == 201
