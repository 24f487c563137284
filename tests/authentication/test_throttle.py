"""Sign-in that slows down whoever guesses passwords."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from tests.authentication.building import Clock

from alula import App, Params, _gcra
from alula._gcra import Budget, Cost, MemoryTimes
from alula.adapters.memory import MemoryService
from alula.authentication import Attempt, AuthenticationStrategy
from alula.authentication._entities import Entities
from alula.authentication._throttle import Throttle
from alula.errors import BadRequest, GeneralError, NotAuthenticated, TooManyRequests

HOME, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(params=["memory", "service"])
def make(request, clock):
    """Makes throttles with small budgets, with each of both stores."""

    async def make(**options):
        given = {"tries": 3, "per_address": 5, "per_account": 7, "window": "15m", **options}
        app = App()
        app.use("tries", MemoryService(), methods=[])
        service = "tries" if request.param == "service" else None
        throttle = Throttle(**given, service=service, now=clock)
        await throttle.setup(Authentication(app))
        return throttle

    return make


class Authentication:
    """What a throttle knows of its authentication service."""

    entities = None

    def __init__(self, app):
        self.app = app


class AsTheNameIsSent(AuthenticationStrategy):
    """A strategy that looks for no account."""

    def __init__(self, name):
        self.name = name

    def account_of(self, authentication):
        return authentication["email"]


@asynccontextmanager
async def attempt(throttle, address, account, strategy="local"):
    """One attempt to sign in, by a strategy that looks for no account."""
    credentials = {"strategy": strategy, "email": account, "password": "x"}
    params = Params(provider="rest", ip=address)
    current = Attempt(credentials, params, AsTheNameIsSent(strategy))
    await throttle.before_attempt(current)
    try:
        yield
    except Exception as error:
        await throttle.after_failure(current, error)
        raise
    else:
        await throttle.after_success(current)


async def fail(throttle, address=HOME, account="ada@example.com"):
    with pytest.raises(NotAuthenticated):
        async with attempt(throttle, address, account):
            raise NotAuthenticated("Invalid login")


async def succeed(throttle, address=HOME, account="ada@example.com"):
    async with attempt(throttle, address, account):
        pass


async def refused(throttle, address=HOME, account="ada@example.com"):
    """Return the seconds to wait that a refused attempt is told."""
    with pytest.raises(TooManyRequests) as caught:
        async with attempt(throttle, address, account):
            pytest.fail("the attempt got through")
    wait = int(caught.value.headers["Retry-After"])
    unit = "second" if wait == 1 else "seconds"
    assert caught.value.message.endswith(f"try again in {wait} {unit}")
    return wait


async def test_so_many_tries_and_then_no_more(make):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    assert await refused(throttle) == 300


async def test_a_refused_attempt_costs_nothing(make, clock):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    for _ in range(20):
        assert await refused(throttle) == 300
    clock.time += 300
    await fail(throttle)
    await succeed(throttle, account="bob@example.com")  # the budget of the address is not spent


async def test_tries_come_back_one_by_one(make, clock):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    clock.time += 299.5
    assert await refused(throttle) == 1
    clock.time += 0.5
    await fail(throttle)
    assert await refused(throttle) == 300
    clock.time += 900
    for _ in range(3):
        await fail(throttle)
    assert await refused(throttle) == 300


async def test_the_right_password_does_not_get_through_either(make):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    with pytest.raises(TooManyRequests):
        await succeed(throttle)


async def test_a_sign_in_makes_the_small_budget_whole(make):
    throttle = await make()
    for _ in range(4):
        await fail(throttle)
        await fail(throttle)
        await succeed(throttle)


async def test_sign_ins_are_not_limited(make):
    throttle = await make()
    for number in range(20):
        await succeed(throttle)
        await succeed(throttle, account=f"{number}@example.com")
        await succeed(throttle, address=f"192.0.2.{number}")


async def test_one_password_for_many_accounts_is_stopped_by_the_address(make):
    throttle = await make()
    for number in range(5):
        await fail(throttle, account=f"{number}@example.com")
    assert await refused(throttle, account="another@example.com") == 180
    await fail(throttle, ELSEWHERE, "another@example.com")


async def test_many_addresses_for_one_account_are_stopped_by_the_account(make):
    throttle = await make()
    for number in range(7):
        await fail(throttle, f"192.0.2.{number}")
    assert await refused(throttle, ELSEWHERE) == 129
    await fail(throttle, ELSEWHERE, "bob@example.com")


async def test_strangers_cannot_lock_out_a_user_at_a_known_address(make, clock):
    throttle = await make()
    await succeed(throttle)
    clock.time += 29 * 86_400
    for number in range(7):
        await fail(throttle, f"192.0.2.{100 + number}")
    await refused(throttle, ELSEWHERE)
    await fail(throttle)
    await succeed(throttle)


async def test_a_neighbour_cannot_lock_out_either(make):
    throttle = await make()
    await succeed(throttle)
    for number in range(5):
        await fail(throttle, account=f"{number}@example.com")
    await refused(throttle, account="another@example.com")
    await succeed(throttle)


async def test_a_known_address_still_guesses_no_password(make):
    throttle = await make()
    await succeed(throttle)
    for _ in range(3):
        await fail(throttle)
    assert await refused(throttle) == 300


async def test_an_address_is_forgotten(make, clock):
    throttle = await make(known="1h")
    await succeed(throttle)
    clock.time += 3600
    for number in range(7):
        await fail(throttle, f"192.0.2.{100 + number}")
    await refused(throttle)


async def test_what_the_server_failed_at_costs_nothing(make):
    throttle = await make()
    for error in [GeneralError("down"), OSError("down")] * 5:
        with pytest.raises(type(error)):
            async with attempt(throttle, HOME, "ada@example.com"):
                raise error
    await succeed(throttle)


async def test_any_other_refusal_costs_a_try(make):
    throttle = await make()
    for _ in range(3):
        with pytest.raises(BadRequest):
            async with attempt(throttle, HOME, "ada@example.com"):
                raise BadRequest("no such field")
    await refused(throttle)


async def test_who_hangs_up_has_paid(make):
    throttle = await make()
    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            async with attempt(throttle, HOME, "ada@example.com"):
                raise asyncio.CancelledError
    await refused(throttle)


async def test_a_crowd_at_once_gets_no_further_than_one_after_the_other(make):
    throttle = await make()
    reached = 0

    async def guess():
        nonlocal reached
        async with attempt(throttle, HOME, "ada@example.com"):
            reached += 1
            await asyncio.sleep(0)
            raise NotAuthenticated("Invalid login")

    results = await asyncio.gather(*(guess() for _ in range(50)), return_exceptions=True)
    assert reached == 3
    assert sum(isinstance(result, TooManyRequests) for result in results) == 47


@pytest.mark.parametrize("other", ["ADA@example.com", " ada@example.com", "ada@EXAMPLE.com\n"])
async def test_spellings_of_an_account_share_its_budget(make, other):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    await refused(throttle, account=other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
        ("a socket", "a socket"),
    ],
)
async def test_what_one_sender_can_take_for_an_address_is_one(make, one, other):
    throttle = await make()
    for number in range(5):
        await fail(throttle, one, f"{number}@example.com")
    await refused(throttle, other, "another@example.com")


async def test_neighbouring_networks_are_distinguished(make):
    throttle = await make()
    for number in range(5):
        await fail(throttle, "2001:db8:1:2::1", f"{number}@example.com")
    await fail(throttle, "2001:db8:1:3::1", "another@example.com")


async def test_an_unknown_address_has_no_budget_of_its_own(make):
    throttle = await make()
    for number in range(20):
        await fail(throttle, None, f"{number}@example.com")
    for _ in range(2):
        await fail(throttle, None, "1@example.com")
    await refused(throttle, None, "1@example.com")


async def test_a_strategy_without_accounts_is_limited_by_address(make):
    throttle = await make()
    for _ in range(5):
        await fail(throttle, account=None)
    await refused(throttle, account=None)
    await succeed(throttle, ELSEWHERE, None)


async def test_accounts_with_long_or_odd_names_are_counted_like_others(make):
    throttle = await make(per_address=100)
    for account in ("x" * 1_000_000, "a\0b", "\ud800", ""):
        for _ in range(3):
            await fail(throttle, account=account)
        await refused(throttle, account=account)
    await fail(throttle, account="a")


async def test_a_reset_forgets_tries_and_known_addresses(make):
    throttle = await make()
    await succeed(throttle)
    for _ in range(3):
        await fail(throttle)
    await throttle.reset()
    for number in range(7):
        await fail(throttle, f"192.0.2.{100 + number}")
    await refused(throttle)


@pytest.mark.parametrize("seconds", [10, 60, 86_400])
async def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer_than_the_window(
    make, clock, seconds
):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    clock.time -= seconds
    begun = clock.time
    while True:
        try:
            await succeed(throttle)
            break
        except TooManyRequests as error:
            clock.time += int(error.headers["Retry-After"])
    assert clock.time - begun <= 900
    for _ in range(3):
        await fail(throttle)
    assert await refused(throttle) <= 300


async def test_clocks_of_processes_may_differ_by_some_seconds(clock):
    app, late = App(), Clock()
    late.time = clock.time - 10
    app.use("tries", MemoryService(), methods=[])
    reached = 0
    throttles = [Throttle(tries=3, service="tries", now=each) for each in (clock, late)]
    for number in range(12):
        throttle = throttles[number % 2]
        await throttle.setup(Authentication(app))
        with suppress(TooManyRequests):
            await fail(throttle)
            reached += 1
    assert reached == 3


async def test_a_clock_that_was_ahead_does_not_keep_passed_times(clock):
    app = App()
    app.use("tries", MemoryService(), methods=[])
    throttle = Throttle(service="tries", now=clock)
    await throttle.setup(Authentication(app))
    clock.time += 86_400
    await fail(throttle, ELSEWHERE)
    clock.time -= 86_400
    for number in range(3):
        await fail(throttle, account=f"{number}@example.com")
        clock.time += 901
    kept = [record["until"] for record in await app.service("tries").find()]
    assert len([until for until in kept if until < (clock.time - 901) * 1000]) == 0


@pytest.mark.parametrize("other", ["local", "other"])
async def test_a_sign_in_under_a_similar_name_gives_no_attempts_for_another(make, other):
    throttle = await make()
    reached = 0
    for number in range(30):
        try:
            await fail(throttle)
            reached += 1
        except TooManyRequests:
            pass
        if number % 2:
            with suppress(TooManyRequests):
                async with attempt(throttle, HOME, "ADA@example.com", other):
                    pass
    assert reached == 3


async def test_one_name_in_two_strategies_may_be_two_accounts(make):
    throttle = await make(tries=5)
    reached = 0
    for _ in range(30):
        with suppress(TooManyRequests):
            async with attempt(throttle, HOME, "ada@example.com", "other"):
                pass
        try:
            await fail(throttle)
            reached += 1
        except TooManyRequests:
            pass
    assert reached == 5


async def test_users_of_another_service_share_a_store_and_no_budget(clock):
    app = App()
    app.use("tries", MemoryService(), methods=[])
    throttles = []
    for path in ("users", "admins"):
        throttle = Throttle(tries=3, service="tries", now=clock)
        stub = Authentication(app)
        stub.entities = Entities(app, path, "user")
        await throttle.setup(stub)
        throttles.append(throttle)
    users, admins = throttles
    for _ in range(3):
        await fail(admins)
        await succeed(users)
    await refused(admins)


# -- budgets of others -------------------------------------------------------------------------


async def test_own_budgets_are_spent_and_come_back(make, clock):
    throttle = await make()
    for _ in range(3):
        assert await throttle.take("reset mails", "user 1", 3, "1h") == 0
    assert await throttle.take("reset mails", "user 1", 3, "1h") == 1200
    clock.time += 1199.5
    assert await throttle.take("reset mails", "user 1", 3, "1h") == 1
    clock.time += 0.5
    assert await throttle.take("reset mails", "user 1", 3, "1h") == 0


async def test_own_budgets_are_counted_by_name_and_key(make):
    throttle = await make()
    assert await throttle.take("mails", "1", 1, 60) == 0
    assert await throttle.take("mails", "2", 1, 60) == 0
    assert await throttle.take("codes", "1", 1, 60) == 0
    assert await throttle.take("mails", "1", 1, 60) == 60


async def test_a_try_of_an_own_budget_is_given_back(make):
    throttle, codes = await make(), ("codes", "user 1", 2, 60)
    for _ in range(3):
        assert await throttle.take(*codes) == 0
        await throttle.give_back(*codes)
    assert [await throttle.take(*codes) for _ in range(3)] == [0, 0, 30]


async def test_own_budgets_are_not_those_of_sign_ins(make):
    throttle = await make()
    for _ in range(3):
        await fail(throttle)
    assert await throttle.take("both", "ada@example.com", 3, "15m") == 0
    assert await throttle.take("address", HOME, 3, "15m") == 0
    await throttle.reset()
    assert await throttle.take("address", HOME, 1, "15m") == 0


@pytest.mark.parametrize(
    ("tries", "window", "text"),
    [(0, "1h", "mails is 0; give a whole"), (1, "soon", "mails: 'soon' is not a duration")],
)
async def test_own_budgets_are_checked(make, tries, window, text):
    with pytest.raises(ValueError, match=f"^throttle: {text}"):
        await (await make()).take("mails", "1", tries, window)


async def test_several_budgets_are_spent_together_or_not_at_all(make):
    times = (await make())._spent
    small, large = Cost("small", Budget(60_000, 60_000)), Cost("large", Budget(60_000, 20_000))
    assert await times.spend([small, large]) == 0
    for _ in range(5):
        assert await times.spend([large, small]) == 60_000
    assert await times.spend([large]) == 0
    await times.refund([small, large])
    assert await times.spend([small, large, large]) == 0
    assert await times.spend([small, large]) == 60_000  # the longer wait of the two


# -- stores ------------------------------------------------------------------------------------


async def test_memory_is_bounded_and_the_most_spent_stay():
    times = MemoryTimes(100)
    assert await times.compare_and_set("under attack", 0, 10**12)
    for number in range(1000):
        assert await times.compare_and_set(f"new {number}", 0, number + 1)
        assert len(times._times) <= 100
    assert await times.read("under attack") == 10**12
    assert await times.read("new 0") == 0
    assert await times.read("new 999") == 1000


async def test_a_time_is_changed_only_by_who_has_read_it():
    times = MemoryTimes(100)
    assert await times.compare_and_set("a", 0, 5)
    assert not await times.compare_and_set("a", 0, 7)
    assert await times.read("a") == 5
    assert await times.compare_and_set("a", 5, 7)
    assert await times.read("a") == 7


async def test_processes_share_what_is_spent_through_a_service(clock):
    app = App()
    app.use("tries", MemoryService(id="_id"), methods=[])
    one, other = (Throttle(tries=3, service="tries", now=clock) for _ in range(2))
    await one.setup(Authentication(app))
    await other.setup(Authentication(app))
    await succeed(one, ELSEWHERE)
    await fail(one)
    await fail(other)
    await fail(one)
    await refused(other)
    await refused(one)
    stored = await app.service("tries").find()
    assert all(record.keys() == {"_id", "until"} for record in stored)
    assert not any("ada" in str(record) or HOME in str(record) for record in stored)


class Contended(MemoryService):
    """Another process is always quicker with the first writes."""

    quicker = 0

    async def patch(self, id, data, params):
        if self.quicker:
            self.quicker -= 1
            record = await super().get(id, {})
            await super().patch(id, {"until": record["until"] + 1}, {})
        return await super().patch(id, data, params)


async def test_an_attempt_that_was_overtaken_is_not_refused_for_a_millisecond(clock):
    app, swept = App(), asyncio.Event()

    class SlowToSweep(MemoryService):
        async def remove(self, id, params):
            await swept.wait()
            return await super().remove(id, params)

    app.use("tries", SlowToSweep(), methods=[])
    throttle = Throttle(tries=3, service="tries", now=clock)
    await throttle.setup(Authentication(app))
    first = asyncio.create_task(fail(throttle))  # reads the clock, and waits for the sweep
    await asyncio.sleep(0)
    for _ in range(2):
        clock.time += 0.001
        await fail(throttle)
    swept.set()
    await first
    assert await refused(throttle) == 300


@pytest.mark.parametrize("losses", [2, 9, 30])
async def test_who_loses_a_race_reads_again(clock, losses):
    app, service = App(), Contended()
    app.use("tries", service, methods=[])
    throttle = Throttle(tries=5, service="tries", now=clock)
    await throttle.setup(Authentication(app))
    await fail(throttle)
    service.quicker = losses
    await fail(throttle)
    service.quicker = losses
    await succeed(throttle)


async def test_who_loses_every_race_may_try_again_in_a_second(clock, monkeypatch):
    monkeypatch.setattr(_gcra, "_MAX_CONTENTION_SECONDS", 0.02)
    app, service = App(), Contended()
    app.use("tries", service, methods=[])
    throttle = Throttle(tries=3, service="tries", now=clock)
    await throttle.setup(Authentication(app))
    await fail(throttle)
    service.quicker = 10**6
    assert await refused(throttle) == 1


async def test_giving_back_and_noting_give_up_where_they_lose_every_race(clock, monkeypatch):
    monkeypatch.setattr(_gcra, "_MAX_CONTENTION_SECONDS", 0.02)
    app, service = App(), Contended()
    app.use("tries", service, methods=[])
    throttle = Throttle(tries=3, service="tries", now=clock)
    await throttle.setup(Authentication(app))
    async with attempt(throttle, HOME, "ada@example.com"):
        service.quicker = 10**6  # the sign-in succeeds all the same
    service.quicker = 0
    await fail(throttle)


async def test_times_that_have_passed_are_removed(clock):
    app = App()
    app.use("tries", MemoryService(), methods=[])
    throttle = Throttle(tries=3, window="15m", known="20m", service="tries", now=clock)
    await throttle.setup(Authentication(app))
    await succeed(throttle)
    await fail(throttle, ELSEWHERE, "bob@example.com")
    assert len(await app.service("tries").find()) > 3
    clock.time += 900
    await fail(throttle, account="eve@example.com")
    kept = await app.service("tries").find()
    assert sorted(record["until"] - clock.time * 1000 for record in kept) == [
        18_000,  # one of fifty tries of the address
        18_000,  # one of fifty tries for eve's name
        18_000,  # and for her account
        300_000,  # one of three of both, by the name
        300_000,  # and by the account
        300_000,  # ada's address is known for five more minutes, to her account
        300_000,  # and at all
    ]


async def test_memory_forgets_what_has_passed(clock):
    throttle = Throttle(tries=3, window="15m", now=clock)
    await throttle.setup(Authentication(App()))
    for number in range(40):
        await fail(throttle, account=f"{number}@example.com")
    assert len(throttle._spent._times) == 40 * 4 + 1
    clock.time += 900
    await fail(throttle)
    assert len(throttle._spent._times) == 5


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tries", "per_address", "per_account"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, None])
def test_an_invalid_budget_is_an_error(name, value):
    with pytest.raises(ValueError, match=rf"^throttle: {name} is .*at least 1$"):
        Throttle(**{name: value})


@pytest.mark.parametrize("name", ["window", "known"])
def test_an_invalid_duration_is_an_error(name):
    with pytest.raises(ValueError, match=rf"^throttle: {name}: 'soon' is not a duration"):
        Throttle(**{name: "soon"})


async def test_a_missing_service_is_an_error():
    with pytest.raises(ValueError, match=r"\['service'\] names the service 'tries'.*app\.use"):
        await Throttle(service="tries").setup(Authentication(App()))


async def test_a_service_that_clients_can_call_is_refused():
    app = App()
    app.use("tries", MemoryService())
    with pytest.raises(ValueError, match=r"which clients can call \(find, get.*methods=\[\]"):
        await Throttle(service="tries").setup(Authentication(app))
