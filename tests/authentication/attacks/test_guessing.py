"""Guessing over HTTP: what is slowed down, for whom, and what does not help against it."""

from __future__ import annotations

import pytest
from tests.authentication.attacks.target import Target, login

SPOOFED = (
    "X-Forwarded-For",
    "X-Real-IP",
    "Forwarded",
    "X-Client-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
)


@pytest.fixture
async def target():
    return await Target(throttle={}).start()


async def guess(target, number, *, email="ada@example.com", password="wrong", address="192.0.2.7"):
    spoofed = dict.fromkeys(SPOOFED, f"203.0.113.{number}")
    data = login(email.format(number), password)
    return await target.ask(
        "POST", "/authentication", data, spoofed, client=(address.format(number), 1000 + number)
    )


async def statuses(target, count, **guessed):
    answers = [await guess(target, number, **guessed) for number in range(count)]
    return [answer.status for answer in answers]


async def test_passwords_of_one_account_from_one_address(target):
    assert await statuses(target, 15) == [401] * 10 + [429] * 5
    answer = await guess(target, 99, password="right")
    assert answer.status == 429
    assert answer.json["className"] == "too-many-requests"
    assert 0 < int(answer.get("retry-after")) <= 90


async def test_one_password_of_many_accounts(target):
    found = await statuses(target, 60, email="user{}@example.com")
    assert found == [401] * 50 + [429] * 10


async def test_many_addresses_for_one_account(target):
    found = await statuses(target, 60, address="198.51.100.{}")
    assert found == [401] * 50 + [429] * 10


async def test_many_addresses_of_one_network(target):
    found = await statuses(target, 15, address="2001:db8::{}")
    assert found == [401] * 10 + [429] * 5


async def test_accounts_that_do_not_exist_are_slowed_down_alike(target):
    assert await statuses(target, 15, email="nobody@example.com") == [401] * 10 + [429] * 5


async def test_a_user_at_a_known_address_is_not_locked_out(target):
    home = "203.0.113.200"
    assert (await guess(target, 1, password="right", address=home)).status == 201
    assert 429 in await statuses(target, 60, address="198.51.100.{}")
    assert (await guess(target, 1, password="right", address=home)).status == 201


async def test_failed_attempts_do_not_make_an_address_known(target):
    assert await statuses(target, 10) == [401] * 10
    assert 429 in await statuses(target, 51, address="198.51.100.{}")
    assert (await guess(target, 0, password="right")).status == 429


async def test_without_an_address_there_is_still_the_account(target):
    found = []
    for _ in range(15):
        found.append((await target.ask("POST", "/authentication", login(), client=None)).status)
        wrong = login(password="wrong")
        found.append((await target.ask("POST", "/authentication", wrong, client=None)).status)
    assert found == [201, 401] * 15
    wrong = login(email="bob@example.com", password="wrong")
    found = [
        (await target.ask("POST", "/authentication", wrong, client=None)).status for _ in range(12)
    ]
    assert found == [401] * 10 + [429] * 2
