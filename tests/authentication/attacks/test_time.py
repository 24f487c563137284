"""Who measures how long a refusal takes learns nothing from it.

``make fuzz`` measures 200 tries of each kind with the usual hashes, which takes minutes; otherwise
cheap hashes and few tries show whether a kind was forgotten.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import bcrypt
import pytest
from tests.authentication.attacks.target import Target
from tests.authentication.building import quick_passwords

from alula.authentication import LocalStrategy, Passwords

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
TRIES, TOLERANCE = (200, 0.05) if THOROUGH else (15, 0.3)
TURNS = 3
BCRYPT_ROUNDS = 10 if THOROUGH else 9

KINDS: dict[str, tuple[Any, Any]] = {
    "unknown user": ("nobody@example.com", "wrong"),
    "wrong password, Argon2": ("ada@example.com", "wrong"),
    "wrong password, bcrypt": ("bob@example.com", "wrong"),
    "name that a schema refuses": ("nobody", "wrong"),
    "no password stored": ("carl@example.com", "wrong"),
    "no hash stored": ("dora@example.com", "wrong"),
    "operator as user name": ({"$ne": ""}, "wrong"),
    "number as password": ("ada@example.com", 1),
    "no password": ("ada@example.com", None),
    "long password": ("ada@example.com", "x" * 100_000),
}


@pytest.fixture
async def target():
    target = await Target().start()
    target.add_schema()
    passwords = Passwords() if THOROUGH else quick_passwords(least_floor=0.04)
    service = target.app.service("authentication").service
    service.register("local", LocalStrategy(passwords=passwords))
    await service.strategy("local").setup()
    users = target.app.service("users").service
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(BCRYPT_ROUNDS)).decode()
    users.reset(
        [
            {"id": 1, "email": "ada@example.com", "password": str(await passwords.hash("right"))},
            {"id": 2, "email": "bob@example.com", "password": hashed},
            {"id": 3, "email": "carl@example.com"},
            {"id": 4, "email": "dora@example.com", "password": "right"},
        ]
    )
    return target


@pytest.mark.slow
async def test_every_refusal_takes_the_same_time(target):
    for _ in range(TURNS):
        times: dict[str, list[float]] = {name: [] for name in KINDS}
        for _ in range(TRIES):
            for name, (email, password) in KINDS.items():
                started = time.perf_counter()
                answer = await target.sign_in(email, password)
                times[name].append(time.perf_counter() - started)
                assert answer.status == 401
        medians = {name: statistics.median(each) for name, each in times.items()}
        quickest, slowest = min(medians.values()), max(medians.values())
        # A difference that is real shows in every turn, that of a busy machine does not.
        if slowest <= quickest * (1 + TOLERANCE):
            return
    pytest.fail(f"in {TURNS} turns, refusals take different times: {medians}")


async def test_the_first_refusal_reveals_no_more_than_later_ones(target):
    started = time.perf_counter()
    await target.sign_in({"$ne": ""}, "wrong")
    first = time.perf_counter() - started
    assert first >= 0.04
