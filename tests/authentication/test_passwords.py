"""Hashes of passwords, old and new, and the time that failures take."""

from __future__ import annotations

import asyncio
import threading
import time

import bcrypt
import pytest
from tests.authentication.building import BCRYPT, quick_passwords

from alula.authentication import LocalStrategy
from alula.authentication._local_strategy import is_credential
from alula.authentication._passwords import HashedPassword, Passwords, default_passwords

NO_HASHES = [
    "",
    "right",
    "$",
    "$2b$",
    "$2b$04$short",
    BCRYPT[:-1],
    "$argon2id$",
    "$argon2id$v=19$m=8",
    "$2b$ü",
    "$argon2id$ü",
    "$2b$04$\x00",
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$!!",
    "{SSHA}x",
    "\x00",
    "ü",
    None,
    5,
    b"right",
    [],
    {},
]


async def test_new_hashes_are_argon2id_with_a_salt():
    passwords = quick_passwords()
    first, second = await passwords.hash("right"), await passwords.hash("right")
    assert first.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert first != second
    assert isinstance(first, HashedPassword)
    assert await passwords.check("right", first)
    assert not await passwords.check("wrong", first)


async def test_the_usual_parameters_are_those_of_rfc_9106():
    hashed = await Passwords().hash("right")
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_a_process_measures_the_usual_parameters_once():
    default_passwords.cache_clear()
    assert isinstance(default_passwords(), Passwords)
    assert LocalStrategy().passwords is LocalStrategy().passwords
    mine = quick_passwords()
    assert LocalStrategy(passwords=mine).passwords is mine


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
async def test_takes_bcrypt(prefix):
    hashed = prefix + BCRYPT[4:]
    assert await quick_passwords().check("right", hashed)
    assert not await quick_passwords().check("wrong", hashed)


async def test_bcrypt_looks_at_72_bytes_as_everywhere():
    hashed = bcrypt.hashpw(b"\xc3\xbc" * 36, bcrypt.gensalt(4)).decode()
    passwords = quick_passwords()
    assert await passwords.check("ü" * 36 + "more", hashed)
    assert not await passwords.check("ü" * 35 + "more", hashed)


async def test_argon2_looks_at_all_of_a_password():
    passwords = quick_passwords()
    hashed = await passwords.hash("x" * 4000)
    assert not await passwords.check("x" * 3999, hashed)


@pytest.mark.parametrize("hashed", NO_HASHES)
async def test_nothing_fits_what_is_no_hash(hashed):
    passwords = quick_passwords()
    assert await passwords.check("right", hashed) is False
    assert await passwords.check("", hashed) is False
    if isinstance(hashed, str) and hashed:
        assert await passwords.check(hashed, hashed) is False


async def test_tells_which_hashes_are_outdated():
    passwords = quick_passwords()
    assert passwords.is_outdated(BCRYPT)
    assert passwords.is_outdated(await quick_passwords(time_cost=2).hash("right"))
    assert not passwords.is_outdated(await passwords.hash("right"))


async def test_works_in_few_threads_and_never_in_that_of_the_loop(monkeypatch):
    passwords, seen = quick_passwords(), set()
    verify = passwords._argon2.verify
    hashed = await passwords.hash("right")

    def noting(*args):
        seen.add(threading.current_thread().name)
        time.sleep(0.002)
        return verify(*args)

    monkeypatch.setattr(passwords, "_argon2", type("Noting", (), {"verify": staticmethod(noting)}))
    await asyncio.gather(*(passwords.check("right", hashed) for _ in range(40)))
    assert all(name.startswith("alula-passwords") for name in seen)
    assert 1 <= len(seen) <= max(2, __import__("os").cpu_count() or 1)


class TestFloor:
    @pytest.fixture
    def waits(self, monkeypatch):
        """Every time that was waited, without any waiting."""
        waited = []

        async def sleep(seconds):
            waited.append(seconds)

        monkeypatch.setattr(asyncio, "sleep", sleep)
        return waited

    @pytest.fixture
    def clock(self, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(time, "perf_counter", lambda: now[0])
        return now

    async def test_the_rest_of_the_floor_is_waited(self, waits, clock):
        passwords = quick_passwords(least_floor=0.5)
        await passwords.prepare()
        clock[0] = 100.2
        await passwords.until_floor(100.0)
        assert waits == [pytest.approx(0.3)]

    async def test_what_took_longer_waits_for_a_multiple(self, waits, clock):
        passwords = quick_passwords(least_floor=0.5)
        await passwords.prepare()
        clock[0] = 109.2  # four times the floor is the most that it rises to
        await passwords.until_floor(100.0)
        assert waits == [pytest.approx(0.8)]

    async def test_on_a_busy_machine_the_floor_rises_for_all_and_falls_again(self, waits, clock):
        passwords = quick_passwords(least_floor=0.5)
        await passwords.prepare()
        for now, started in [(101.0, 100.0), (101.1, 101.1), (131.1, 131.1), (400.0, 399.9)]:
            clock[0] = now
            await passwords.until_floor(started)
        assert waits == [pytest.approx(seconds, rel=1e-2) for seconds in (0.2, 1.2, 0.85, 0.4)]

    async def test_is_measured_without_anybody_asking(self, waits):
        passwords = quick_passwords()
        started = time.perf_counter()
        await passwords.until_floor(started)
        assert len(waits) == 1
        assert 0 < waits[0] < 5

    async def test_lies_above_the_costliest_kind_of_hash_that_was_met(self, waits, clock):
        passwords = quick_passwords(least_floor=0.1)
        await passwords.prepare()
        passwords._costs.update({"cheap": 0.01, "dear": 0.4})
        await passwords.until_floor(100.0)
        assert waits == [pytest.approx(0.8)]

    async def test_the_shortest_time_of_a_kind_counts(self, clock):
        passwords = quick_passwords()
        for seconds in (3.0, 0.2, 5.0):

            def matches(password, hashed, seconds=seconds):
                clock[0] += seconds
                return True

            passwords._matches = matches
            assert await passwords.check("x", BCRYPT)
        assert passwords._costs == {"$2b$04": pytest.approx(0.2)}

    async def test_every_cost_is_a_kind_of_its_own(self):
        passwords = quick_passwords()
        await passwords.check("x", BCRYPT)
        await passwords.check("x", BCRYPT.replace("$04$", "$05$"))
        await passwords.check("x", await passwords.hash("a"))
        await passwords.check("x", await passwords.hash("b"))
        await passwords.check("x", await quick_passwords(time_cost=2).hash("b"))
        assert sorted(passwords._costs) == [
            "$2b$04",
            "$2b$05",
            "$argon2id$v=19$m=8,t=1,p=1",
            "$argon2id$v=19$m=8,t=2,p=1",
        ]

    async def test_a_check_of_nothing_takes_the_time_of_a_check(self):
        passwords, seen = quick_passwords(), []
        check = passwords._matches
        passwords._matches = lambda *args: seen.append(args) or check(*args)
        await passwords.check_nothing("a")
        await passwords.check_nothing("b")
        assert [args[0] for args in seen] == ["", "a", "b"]
        assert len({args[1] for args in seen}) == 1


@pytest.mark.parametrize("value", ["x", "x" * 4096, "ü" * 2048, " ", "\x00", "💥"])
def test_credentials(value):
    assert is_credential(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x" * 4097,
        "ü" * 2049,
        "\ud800",
        None,
        5,
        True,
        b"x",
        ["x"],
        {"$ne": ""},
        "x" * 1_000_000,
    ],
    ids=lambda value: repr(value)[:12],
)
def test_no_credentials(value):
    assert not is_credential(value)


def test_a_hash_cannot_come_from_json():
    import json

    assert type(json.loads(json.dumps(HashedPassword("x")))) is str
    assert str(HashedPassword("x")) == "x"
    assert type(str(HashedPassword("x"))) is str
