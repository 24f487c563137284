"""Signed values that clients keep for the server."""

from __future__ import annotations

import time

import pytest
from tests.authentication.building import OTHER_SECRET, add_authentication

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import _sealed
from alula.authentication._sealed import OneTimeSeal, Seal

KEY = b"k" * 32


def make(purpose="ticket", app=None, path="authentication", **options):
    app = App() if app is None else app
    seal = OneTimeSeal(purpose, 30)
    seal.setup(add_authentication(app, path, **options), path)
    return seal


class TestSeal:
    @pytest.mark.parametrize("text", ["", "a", "a.b", "x" * 8000])
    def test_returns_what_was_sealed(self, text):
        assert Seal(KEY).unseal(Seal(KEY).seal(text)) == text

    @pytest.mark.parametrize(
        "sealed", [None, 7, {}, [], "", ".", "a", "a.b", "a.ü", "ü", "x" * 8193, "a." + "A" * 43]
    )
    def test_refuses_what_it_has_not_sealed(self, sealed):
        assert Seal(KEY).unseal(sealed) is None

    def test_refuses_any_change(self):
        sealed = Seal(KEY).seal("session.7")
        for place in range(len(sealed)):
            changed = sealed[:place] + chr(ord(sealed[place]) ^ 1) + sealed[place + 1 :]
            assert Seal(KEY).unseal(changed) is None
        assert Seal(KEY).unseal(sealed + "=") is None

    def test_refuses_what_another_key_has_sealed(self):
        assert Seal(b"x" * 32).unseal(Seal(KEY).seal("a")) is None

    def test_refuses_what_is_too_long_even_if_it_is_its_own(self):
        assert Seal(KEY).unseal(Seal(KEY).seal("x" * 8192)) is None


class TestOneTimeSeal:
    @pytest.mark.parametrize("value", [None, 7, "ü", ["a"], {"sub": "1", "list": [1, None]}])
    def test_returns_what_was_sealed(self, value):
        seal = make()
        now = time.time() * 1000
        unsealed = seal.unseal(seal.seal(value))
        assert unsealed.value == value
        assert now + 29_000 < unsealed.until < now + 31_000

    def test_equal_values_differ(self):
        seal = make()
        assert seal.seal(1) != seal.seal(1)

    def test_another_purpose_or_secret_refuses_it(self):
        sealed = make("ticket").seal(1)
        assert make("challenge").unseal(sealed) is None
        assert make("ticket", secret=OTHER_SECRET).unseal(sealed) is None
        assert make("ticket").unseal(sealed).value == 1

    def test_expires(self, monkeypatch):
        seal = make()
        sealed, now = seal.seal(1), time.time()
        monkeypatch.setattr(time, "time", lambda: now + 29)
        assert seal.unseal(sealed) is not None
        monkeypatch.setattr(time, "time", lambda: now + 31)
        assert seal.unseal(sealed) is None

    def test_is_of_no_use_before_the_setup(self):
        seal = OneTimeSeal("ticket", 30)
        assert seal.unseal(make().seal(1)) is None
        with pytest.raises(RuntimeError, match="'ticket' can be sealed after the setup"):
            seal.seal(1)

    async def test_counts_once(self):
        seal = make()
        one, other = (seal.unseal(seal.seal(1)) for _ in range(2))
        assert await seal.use_up(one)
        assert not await seal.use_up(one)
        assert await seal.use_up(other)
        assert not await seal.use_up(one)

    async def test_a_value_has_as_many_tries_as_it_is_given(self):
        seal = make()
        one, other = (seal.unseal(seal.seal(1)) for _ in range(2))
        assert [await seal.take_try(one, 2) for _ in range(3)] == [True, True, False]
        assert await seal.take_try(other, 2)
        assert await seal.use_up(other)
        assert not await seal.take_try(other, 2)
        assert await seal.use_up(one)

    async def test_used_values_are_forgotten_when_they_expire(self):
        seal, now = make(), time.time()
        for _ in range(2):
            await seal.use_up(seal.unseal(seal.seal(1)))
        assert len(seal._used._times._times) == 2
        seal._used._times._now = lambda: now + 32
        await seal.use_up(seal.unseal(seal.seal(1)))
        assert len(seal._used._times._times) == 1

    async def test_the_memory_is_bounded(self, monkeypatch):
        monkeypatch.setattr(_sealed, "_CAPACITY", 10)
        seal = make()
        for _ in range(15):
            await seal.use_up(seal.unseal(seal.seal(1)))
        assert 9 <= len(seal._used._times._times) <= 10

    async def test_processes_hear_which_were_used(self):
        here, there = App(), App()
        one, other = make(app=here), make(app=there)
        here.channel_registry.forward = there.channel_registry.receive
        sealed = one.seal(1)
        assert await one.take_try(one.unseal(sealed), 1)
        assert not await other.take_try(other.unseal(sealed), 1)
        assert await one.use_up(one.unseal(sealed))
        assert not await other.use_up(other.unseal(sealed))

    async def test_processes_that_share_a_store_need_no_bus(self):
        here, store = App(), MemoryService()
        seals = []
        for app in (here, App()):
            app.use("store", store, methods=[])
            service = add_authentication(app, throttle={"service": "store"})
            await service.throttle.setup(service)
            seal = OneTimeSeal("ticket", 30)
            seal.setup(service, "authentication")
            seals.append(seal)
        one, other = seals
        sealed = one.seal(1)
        assert await one.use_up(one.unseal(sealed))
        assert not await other.use_up(other.unseal(sealed))
        one._used._remember(["key", 1])  # the store has it already
        assert len(await here.service("store").find()) == 1

    async def test_services_and_purposes_of_one_application_do_not_mix(self):
        app = App()
        ticket, challenge = make("ticket", app), make("challenge", app, "door")
        sealed = ticket.unseal(ticket.seal(1))
        assert await ticket.use_up(sealed)
        assert await challenge.use_up(challenge.unseal(challenge.seal(1)))

    async def test_a_second_setup_keeps_what_was_used(self):
        app = App()
        service = add_authentication(app)
        seal = OneTimeSeal("ticket", 30)
        seal.setup(service, "authentication")
        sealed = seal.seal(1)
        assert await seal.use_up(seal.unseal(sealed))
        seal.setup(service, "authentication")
        assert not await seal.use_up(seal.unseal(sealed))
