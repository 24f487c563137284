"""Guessing the password of an account with the help of accounts of one's own."""

from __future__ import annotations

import asyncio

import pytest
from pymongo import AsyncMongoClient
from tests.authentication.attacks.target import Target, login
from tests.authentication.building import add_user, make_app, quick_passwords

from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.authentication import AuthenticationStrategy, LocalStrategy
from alula.authentication._entities import fold_username
from alula.errors import NotAuthenticated

VICTIM = "ada@example.com"
ADDRESS = ("203.0.113.66", 4000)
GUESSES = 150
BUDGET = 10
NAME = "alula_twin_accounts"


class Counting(LocalStrategy):
    """Counts the guesses at the victim's password that were looked at."""

    looked_at = 0

    def __init__(self, **options):
        super().__init__(passwords=quick_passwords(), **options)
        self.passwords.check = self.counted(self.passwords.check)

    def counted(self, check):
        async def counted(password, hashed, **options):
            Counting.looked_at += password.startswith("guess")
            return await check(password, hashed, **options)

        return counted


async def target_with(*strategies, tries=None, **options):
    Counting.looked_at = 0
    target = Target(throttle=options.pop("throttle", {}), **options)
    authentication = target.app.service("authentication").service
    authentication.register("local", Counting())
    for name, strategy in strategies:
        authentication.register(name, strategy)
    if tries is not None:
        target.app.use("tries", tries, methods=[])
    return await target.start()


async def guess(target, number, name=VICTIM, **data):
    data = {**login(name, f"guess {number}"), **data}
    return await target.ask("POST", "/authentication", data, client=ADDRESS)


async def attack(target, own, *, names=(VICTIM,)):
    """Guess again and again, with a sign-in to one's own account in between."""
    statuses = []
    for number in range(GUESSES):
        if number % 8 == 7:
            await target.ask("POST", "/authentication", own, client=ADDRESS)
        answer = await guess(target, number, names[number % len(names)])
        statuses.append(answer.status)
    return statuses


async def register(target, **data):
    answer = await target.ask("POST", "/users", {"password": "right", **data}, client=ADDRESS)
    assert answer.status == 201, answer.text


@pytest.mark.parametrize(
    "twin",
    [
        "ADA@example.com",
        " ada@example.com",
        "ada@example.com\n",
        "\uff41da@example.com",  # a full-width letter
        "\u00aada@example.com",  # an ordinal, which NFKC makes an `a`
        "a\u00adda@example.com",  # a soft hyphen
    ],
)
async def test_a_sign_in_to_a_twin_gives_no_tries(twin):
    target = await target_with()
    await register(target, email=twin)
    statuses = await attack(target, login(twin))
    assert statuses.count(401) <= BUDGET
    assert Counting.looked_at <= BUDGET


async def test_a_sign_in_to_a_twin_first_makes_no_address_known():
    target = await target_with()
    await register(target, email="ADA@example.com")
    for number in range(3):
        answer = await target.ask("POST", "/authentication", login("ADA@example.com"),
                                  client=(f"198.51.100.{number}", 1))  # fmt: skip
        assert answer.status == 201
    reached = 0
    for number in range(GUESSES):
        client = (f"198.51.100.{number % 3}", 1)
        for email in (f"{number}@example.com", VICTIM):
            answer = await target.ask(
                "POST", "/authentication", login(email, "guess"), client=client
            )
            reached += answer.status == 401 and email == VICTIM
    # Known addresses would not pay for the account: each would have ten tries nevertheless.
    assert reached <= 3 * BUDGET
    assert Counting.looked_at <= 3 * 50


async def test_a_service_that_compares_names_in_its_own_way_gives_no_more_tries():
    target = await target_with()

    def without_dots(context):
        if "email" in context.params.query:
            context.params.query["email"] = context.params.query["email"].replace(".", "")

    target.app.service("users").hooks(before={"find": [without_dots]})
    store = target.app.service("users").service
    await store.patch(1, {"email": "ada@examplecom"}, {})
    names = ["." * number + VICTIM for number in range(50)]
    statuses = await attack(target, login("nobody"), names=names)
    assert statuses.count(401) <= BUDGET
    assert Counting.looked_at <= BUDGET


async def test_one_account_with_two_names_has_one_budget():
    target = await target_with(("phone", Counting(username_field="phone")),
                               strategies=["jwt", "local", "phone"])  # fmt: skip
    await target.app.service("users").service.patch(1, {"phone": "12345"}, {})
    reached = 0
    for number in range(GUESSES):
        strategy = ("local", "phone")[number % 2]
        answer = await guess(target, number, strategy=strategy, phone="12345")
        reached += answer.status == 401
    assert reached <= BUDGET
    assert Counting.looked_at <= BUDGET


async def test_a_name_of_another_strategy_gives_no_tries():
    target = await target_with(("nick", Counting(username_field="nick")),
                               strategies=["jwt", "local", "nick"])  # fmt: skip
    await register(target, email="eve@example.com", nick=VICTIM)
    own = {"strategy": "nick", "nick": VICTIM, "password": "right"}
    statuses = await attack(target, own)
    assert statuses.count(401) <= BUDGET
    assert Counting.looked_at <= BUDGET


async def test_a_name_that_was_somebody_elses_is_known_for_nobody():
    target = await target_with(throttle={"per_account": 5, "per_address": 5})
    users = target.app.service("users").service
    await register(target, email="free@example.com")
    own = login("free@example.com")
    assert (await target.ask("POST", "/authentication", own, client=ADDRESS)).status == 201
    await users.patch(3, {"email": "gone@example.com"}, {})
    await users.patch(1, {"email": "free@example.com"}, {})
    answers = [await guess(target, number, "free@example.com") for number in range(30)]
    assert [answer.status for answer in answers].count(401) == 5


async def test_a_crowd_of_guesses_with_sign_ins_in_between():
    target = await target_with()
    await register(target, email="ADA@example.com")
    calls = []
    for number in range(GUESSES):
        calls.append(guess(target, number))
        if number % 4 == 3:
            own = login("ADA@example.com")
            calls.append(target.ask("POST", "/authentication", own, client=ADDRESS))
    await asyncio.gather(*calls)
    assert Counting.looked_at <= BUDGET


@pytest.mark.parametrize("password", [None, 1, True, [], {}, ["right"], {"$ne": ""}, ""])
async def test_what_is_no_password_costs_a_try(password):
    target = await target_with()
    answers = [
        await target.ask("POST", "/authentication", login(VICTIM, password), client=ADDRESS)
        for _ in range(15)
    ]
    assert [answer.status for answer in answers] == [401] * 10 + [429] * 5


async def test_processes_that_share_a_database(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        database = client[NAME]
        await client.drop_database(NAME)
        targets = []
        for _ in range(2):
            tries = MongoDBService(database.tries, disable_objectify=True)
            target = await target_with(throttle={"service": "tries"}, tries=tries)
            await register(target, email="ADA@example.com")
            targets.append(target)
        Counting.looked_at = 0
        for number in range(GUESSES):
            if number % 8 == 7:
                own = login("ADA@example.com")
                await targets[number % 2].ask("POST", "/authentication", own, client=ADDRESS)
            await guess(targets[number % 2], number)
        await client.drop_database(NAME)
    assert Counting.looked_at <= BUDGET


# -- what the owner of an account keeps --------------------------------------------------------


async def test_ones_own_failures_are_forgotten_with_a_sign_in():
    target = await target_with()
    for number in range(40):
        if number % 8 == 7:
            answer = await target.ask("POST", "/authentication", login(VICTIM), client=ADDRESS)
            assert answer.status == 201
        assert (await guess(target, number)).status == 401


async def test_other_spellings_of_ones_own_name_are_known_too():
    target = await target_with(throttle={"per_account": 5})

    def fold(context):
        context.params.query["email"] = fold_username(context.params.query["email"])

    target.app.service("users").hooks(before={"find": [fold]})
    spelled = login("Ada@Example.com")
    assert (await target.ask("POST", "/authentication", spelled, client=ADDRESS)).status == 201
    for number in range(20):
        await target.ask("POST", "/authentication", login(VICTIM, "guess"),
                         client=(f"198.51.100.{number}", 1))  # fmt: skip
    refused = await target.ask(
        "POST", "/authentication", login(VICTIM), client=("198.51.100.99", 1)
    )
    assert refused.status == 429
    for name in (VICTIM, "ADA@EXAMPLE.COM"):
        answer = await target.ask("POST", "/authentication", login(name), client=ADDRESS)
        assert answer.status == 201


# -- strategies of others ----------------------------------------------------------------------


class SaysItLooks(AuthenticationStrategy):
    """A strategy that promises to say whose account it is, and does not."""

    looks_up_account = True

    async def authenticate(self, authentication, params):
        if authentication.get("pin") != "0000":
            raise NotAuthenticated("Invalid pin")
        record = await self.app.service("users").get(2)
        return {"authentication": {"strategy": self.name}, "user": record}

    def account_of(self, authentication):
        return authentication.get("email")


async def test_a_strategy_that_breaks_its_promise_gives_no_tries():
    target = await target_with(("pin", SaysItLooks()), strategies=["jwt", "local", "pin"],
                               throttle={"per_address": 5})  # fmt: skip
    assert (await target.ask("POST", "/authentication", login(VICTIM), client=ADDRESS)).status
    answers = [
        (await guess(target, number, f"{number}@example.com", strategy="pin", pin="1")).status
        for number in range(20)
    ]
    assert answers == [401] * 5 + [429] * 15
    right = await guess(target, 1, "x@example.com", strategy="pin", pin="0000")
    assert right.status == 429  # else the answer would tell that it is right


def test_names_that_look_alike_have_one_form():
    forms = {fold_username(name) for name in ("Ada", " ada ", "\uff21da", "a\u200bda", "\u00aada")}
    assert forms == {"ada"}
    assert fold_username("Straße") == fold_username("STRASSE") == "strasse"
    assert fold_username("\ud800") == "\ud800"


@pytest.mark.parametrize("name", ["\u00ad", " \u200b ", "\ufdfa" * 400])
async def test_a_name_that_folding_makes_empty_or_too_long_is_nobody(name):
    """A record without a name, of an import, must not be the account of such a name."""
    app = make_app(MemoryService(start_id=1))
    folding = LocalStrategy(fold_username=True, passwords=quick_passwords())
    app.service("authentication").service.register("local", folding)
    for email in ("", fold_username(name)):
        await add_user(app, email)
    await app.setup()
    with pytest.raises(NotAuthenticated):
        await app.service("authentication").create(login(name), {})
