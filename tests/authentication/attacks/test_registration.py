"""Registrations by the hundred: what they cost others, and what they tell."""

from __future__ import annotations

import asyncio
import time

import pytest
from pydantic import BaseModel, SecretStr
from tests.authentication.attacks.target import Target, login
from tests.authentication.building import quick_passwords

from alula.adapters.memory import MemoryService
from alula.authentication import LocalStrategy, hide_taken, password_hash
from alula.authentication._passwords import MAX_WAITING
from alula.schema import resolve, resolve_external, resolve_result, virtual, with_schema

pytestmark = pytest.mark.slow


class Member(BaseModel):
    email: str
    password: SecretStr


ADDRESS = ("203.0.113.66", 4000)
HASH_SECONDS = 0.1


async def register(target, number=0, address=ADDRESS, **data):
    data = {"email": f"{number}@example.com", "password": "right", **data}
    return await target.ask("POST", "/users", data, client=address)


async def statuses(target, count, **options):
    return [(await register(target, number, **options)).status for number in range(count)]


@pytest.fixture
async def target():
    return await Target(throttle={}).start()


async def test_one_address_registers_fifty_at_once_and_no_more(target):
    assert await statuses(target, 60) == [201] * 50 + [429] * 10
    answer = await register(target)
    assert answer.json["className"] == "too-many-requests"
    assert answer.json["message"].startswith("Too many new passwords from this address; try again")
    assert 0 < int(answer.get("retry-after")) <= 18
    assert (await register(target, 99, ("203.0.113.67", 1))).status == 201


async def test_a_resolver_that_hashes_answers_the_same():
    target = Target(throttle={"new_passwords": 3})
    hashed = resolve({"password": password_hash("local")})
    target.app.use("members", with_schema(MemoryService(), Member, data=hashed))
    await target.start()
    answers = [
        await target.ask("POST", "/members", {"email": f"{n}@b.de", "password": "right"})
        for n in range(5)
    ]
    assert [answer.status for answer in answers] == [201] * 3 + [429] * 2
    assert answers[-1].get("retry-after")


async def test_the_number_is_an_option():
    target = await Target(throttle={"new_passwords": 3}).start()
    assert await statuses(target, 5) == [201] * 3 + [429] * 2


async def test_nothing_is_counted_where_nothing_is_throttled():
    target = await Target(throttle=False).start()
    assert await statuses(target, 60) == [201] * 60


async def test_addresses_of_one_network_count_as_one(target):
    found = [
        (await register(target, number, (f"2001:db8::{number}", 1))).status for number in range(60)
    ]
    assert found.count(429) == 10


async def test_what_is_refused_before_the_hash_costs_nothing(target):
    for _ in range(60):
        assert (await register(target, password="")).status == 400
    assert (await register(target)).status == 201


async def test_calls_from_inside_are_not_counted(target):
    users = target.app.service("users")
    for number in range(60):
        await users.create({"email": f"{number}@x", "password": "right"}, ip=ADDRESS[0])
    assert (await register(target)).status == 201


async def test_without_an_address_nobody_is_counted(target):
    found = [(await register(target, number, None)).status for number in range(60)]
    assert found == [201] * 60


async def test_sign_ins_and_registrations_have_budgets_of_their_own(target):
    assert (await statuses(target, 51))[-1] == 429
    answer = await target.ask("POST", "/authentication", login(), client=ADDRESS)
    assert answer.status == 201


# -- the queue ---------------------------------------------------------------------------------


class Slow:
    """Argon2 on a machine where a hash takes a tenth of a second."""

    def __init__(self, argon2):
        self._argon2 = argon2
        self.hashes = self.checks = 0
        self.check_needs_rehash = argon2.check_needs_rehash

    def hash(self, password):
        time.sleep(HASH_SECONDS)
        self.hashes += 1
        return self._argon2.hash(password)

    def verify(self, *args):
        time.sleep(HASH_SECONDS / 10)
        self.checks += 1
        return self._argon2.verify(*args)


@pytest.fixture
async def slow():
    """An application with slow hashes and large budgets."""
    budgets = dict.fromkeys(("new_passwords", "tries", "per_address", "per_account"), 10_000)
    target = Target(throttle=budgets)
    passwords = quick_passwords()
    target.argon2 = passwords._argon2 = Slow(passwords._argon2)
    service = target.app.service("authentication").service
    service.register("local", LocalStrategy(passwords=passwords))
    return await target.start()


async def test_a_sign_in_does_not_wait_behind_registrations(slow):
    crowd = [asyncio.create_task(register(slow, number)) for number in range(60)]
    await asyncio.sleep(0.05)
    before = slow.argon2.hashes
    assert (await slow.ask("POST", "/authentication", login(), client=ADDRESS)).status == 201
    meanwhile = slow.argon2.hashes - before
    assert not all(task.done() for task in crowd)
    answers = await asyncio.gather(*crowd)
    assert meanwhile < 20  # all sixty, if it waited for its turn
    assert {answer.status for answer in answers} <= {201, 503}


async def test_few_registrations_wait_and_the_next_get_retry_after(slow):
    crowd = [register(slow, number) for number in range(4 * MAX_WAITING)]
    answers = await asyncio.gather(*crowd)
    made = sum(answer.status == 201 for answer in answers)
    refused = [answer for answer in answers if answer.status != 201]
    assert MAX_WAITING < made < 3 * MAX_WAITING
    assert {answer.status for answer in refused} == {503}
    assert refused[0].get("retry-after") == "2"
    assert "Too many passwords wait" in refused[0].json["message"]
    assert (await register(slow, 999)).status == 201  # the queue is empty again


async def test_a_registration_does_not_wait_behind_those_of_another_client(slow):
    crowd = [asyncio.create_task(register(slow, number)) for number in range(4 * MAX_WAITING)]
    await asyncio.sleep(0.05)
    before = slow.argon2.hashes
    assert (await register(slow, 999, ("198.51.100.9", 1))).status == 201
    assert slow.argon2.hashes - before < 8  # more than one thread, on a machine of many cores
    assert not all(task.done() for task in crowd)
    await asyncio.gather(*crowd)


async def test_a_sign_in_does_not_wait_behind_those_of_another_client(slow):
    crowd = [
        asyncio.create_task(slow.ask("POST", "/authentication", login(), client=ADDRESS))
        for _ in range(4 * MAX_WAITING)
    ]
    await asyncio.sleep(0.02)
    checks = slow.argon2.checks
    other = await slow.ask("POST", "/authentication", login(), client=("198.51.100.9", 1))
    assert other.status == 201
    assert slow.argon2.checks - checks < 16
    assert not all(task.done() for task in crowd)
    await asyncio.gather(*crowd)


async def test_an_error_of_a_hash_is_raised_where_it_is_awaited():
    passwords = quick_passwords()
    with pytest.raises(AttributeError):
        await passwords.hash(None)
    assert await passwords.hash("right")


@pytest.mark.parametrize("email", ["ada@example.com", "nobody@example.com"])
async def test_few_sign_ins_wait_either_and_cost_no_try(slow, email):
    throttle = slow.app.service("authentication").service.throttle
    crowd = [
        slow.ask("POST", "/authentication", login(email, "wrong"), client=ADDRESS)
        for _ in range(4 * MAX_WAITING)
    ]
    answers = [answer.status for answer in await asyncio.gather(*crowd)]
    assert answers.count(503) > MAX_WAITING // 2  # a busy machine takes them in slowly
    assert set(answers) == {401, 503}
    times = [until for until in throttle._spent._times.values() if until > time.time() * 1000]
    spent = max(times) - time.time() * 1000
    assert spent <= answers.count(401) * 90  # milliseconds: 10,000 tries in 15 minutes


async def test_calls_from_inside_wait_for_as_long_as_it_takes():
    passwords = quick_passwords()
    hashes = await asyncio.gather(*(passwords.hash("right") for _ in range(5 * MAX_WAITING)))
    checks = await asyncio.gather(*(passwords.check("right", each) for each in hashes))
    assert all(checks)


async def test_a_client_that_disconnects_leaves_the_queue():
    passwords = quick_passwords()
    for _ in range(3):
        tasks = [
            asyncio.create_task(passwords.hash("right", limited=True)) for _ in range(MAX_WAITING)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await passwords.hash("right")  # behind what was begun
    await asyncio.gather(*(passwords.hash("right", limited=True) for _ in range(MAX_WAITING)))


# -- what registrations tell -------------------------------------------------------------------


async def registrations():
    """An application where addresses are unique, and nobody learns which are taken."""
    target = await Target(MemoryService(start_id=1, unique=["email"]), throttle={}).start()
    target.app.service("users").hooks(around={"create": [hide_taken("email")]})
    return target


async def test_a_taken_address_is_answered_like_a_free_one():
    target, created = await registrations(), []
    target.app.service("users").on("created", lambda user, _: created.append(user["email"]))
    taken = await register(target, email="ada@example.com")
    free = await register(target, email="eve@example.com")
    assert (taken.status, free.status) == (201, 201)
    assert taken.json == {"email": "ada@example.com"}
    assert free.json == {"email": "eve@example.com"}
    assert sorted(taken.headers) == sorted(free.headers)
    assert created == ["eve@example.com"]
    assert "password" not in repr(taken.json)
    stored = await target.app.service("users").find(paginate=False)
    assert [user["email"] for user in stored] == [
        "ada@example.com", "bob@example.com", "eve@example.com",
    ]  # fmt: skip


async def test_resolvers_that_need_the_id_make_no_difference():
    target = await registrations()
    hooks = [
        resolve_external(resolve({"home": virtual(lambda user: f"/home/{user['id']}")})),
        resolve_result(resolve({"link": virtual(lambda user: f"/users/{user['id']}")})),
    ]
    target.app.service("users").hooks(around=hooks)
    for email in ("ada@example.com", "eve@example.com"):
        answer = await register(target, email=email)
        assert (answer.status, answer.json) == (201, {"email": email})


async def test_calls_from_inside_see_what_happened():
    target = await registrations()
    users = target.app.service("users")
    created = await users.create({"email": "eve@example.com", "password": "right"})
    assert created["id"] == 3
    with pytest.raises(Exception, match="already"):
        await users.create({"email": "eve@example.com", "password": "right"})


@pytest.mark.parametrize("data", [[], [{"email": "x", "password": "y"}], "x", 1])
async def test_what_is_no_user_is_refused(data):
    target = await registrations()
    answer = await target.ask("POST", "/users", data, client=ADDRESS)
    assert answer.status == 400


async def test_other_failures_are_raised():
    target = await registrations()
    assert (await register(target, password="")).status == 400


def test_the_fields_are_named():
    with pytest.raises(TypeError, match=r"hide_taken\('email'\)"):
        hide_taken()
