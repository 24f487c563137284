"""Sign-in that slows down whoever guesses passwords.

There are three budgets of tries, and each try that does not succeed costs one of all three:

- of one account from one address: the small one, which stops the guessing of a password;
- of one address, whatever the account: stops one password that is tried on many accounts;
- of one account, whatever the address: stops many addresses that work together.

A budget fills up again evenly: after a wait of ``window / tries`` there is another try. An address
from which somebody has signed in to an account is *known* to it for a time, and pays for that
account out of the small budget alone. So what strangers spend, they spend for other strangers, and
the people whose account it is still get in from where they were before. From an address that is
new they do not as long as strangers go on to spend the budget of the account.

A try is paid for before the password is looked at: a thousand at once get no further than ten.
"""
# ruff: noqa: ARG002  # the methods of extensions

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import Any, Final, NamedTuple

from alula.authentication.extension import Extension
from alula.authentication.private_service import milliseconds_of, private_service
from alula.authentication.throttle_store import MemoryTimes, ServiceTimes, Times
from alula.authentication.tokens import Duration
from alula.context import Params
from alula.errors import FrameworkError, TooManyRequests

__all__ = ["Throttle"]

CAPACITY: Final = 50_000
"""How many keys are kept in memory, some 10 MB at most."""

_SWAPS: Final = 10  # tries to write a time; whoever loses so often is one of a flood


class Budget(NamedTuple):
    """So many tries in so much time, both in milliseconds: one for each ``interval``."""

    window: int
    interval: int


class Price(NamedTuple):
    """What an attempt cost: when, the key of account and address, and the keys with budgets."""

    now: int
    both: str | None
    costs: list[tuple[str, Budget]]


class Throttle(Extension):
    """Counts the tries to sign in, and refuses those over the budget.

    Args:
        tries: Wrong passwords for one account from one address within the window.
        per_address: Failures of one address within the window, whatever the account. Of an IPv6
            address the first 64 bits count.
        per_account: Failures for one account within the window, whatever the address.
        window: How long it takes until a budget that was spent is whole again: seconds, or a text
            such as ``"15m"``.
        known: How long an address stays known to an account after a sign-in.
        service: Path of a service of the application that keeps the times for several processes.
            None keeps them in the memory of this one.
        now: The clock, in seconds.

    Raises:
        ValueError: A number of tries below 1, or a time that is none.
    """

    def __init__(
        self,
        *,
        tries: int = 10,
        per_address: int = 50,
        per_account: int = 50,
        window: Duration = "15m",
        known: Duration = "30d",
        service: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        length = milliseconds_of(window, "throttle: window")
        self._both = _budget("tries", tries, length)
        self._address = _budget("per_address", per_address, length)
        self._account = _budget("per_account", per_account, length)
        self._known_for = milliseconds_of(known, "throttle: known")
        self._service = service
        self._now = now
        self._spent: Times = MemoryTimes(CAPACITY)
        self._known: Times = MemoryTimes(CAPACITY)
        self._authentication: Any = None
        self._sweep_at = 0

    async def setup(self, authentication: Any) -> None:
        """Find the service that keeps the times, where one is named.

        Raises:
            ValueError: There is no such service, or clients can call it.
        """
        self._authentication = authentication
        if self._service is not None:
            handle = private_service(authentication.app, self._service, "throttle['service']")
            self._spent = self._known = ServiceTimes(handle)

    async def reset(self) -> None:
        """Forget all tries, and which addresses are known."""
        await self._spent.clear()
        await self._known.clear()

    # -- as an extension -----------------------------------------------------------------------

    async def before_attempt(self, data: Any, params: Params) -> None:
        """Take the price of an attempt from outside, where it could be a guess.

        Raises:
            TooManyRequests: A budget is spent. ``Retry-After`` says how many seconds to wait.
        """
        if params.provider is None:
            return
        strategy = self._strategy_of(data)
        if strategy is not None and strategy.can_be_guessed:
            address = params.get("ip")
            params["throttle_price"] = await self.pay(address, strategy.account_of(data))

    async def after_failure(self, data: Any, params: Params, error: Exception) -> None:
        """Give the price back where it was the server that failed."""
        price = params.get("throttle_price")
        if price is not None and not (isinstance(error, FrameworkError) and error.code < 500):
            await self.give_back(price)

    async def after_success(self, data: Any, params: Params, result: Mapping[str, Any]) -> None:
        """Give the price back, and note that the address is known to the account."""
        price = params.get("throttle_price")
        if price is not None:
            await self.reward(price)

    def _strategy_of(self, data: Any) -> Any:
        name = data.get("strategy") if isinstance(data, Mapping) else None
        known = isinstance(name, str) and name in self._authentication.strategies
        return self._authentication.strategy(name) if known else None

    # -- one attempt ---------------------------------------------------------------------------

    async def pay(self, address: str | None, account: str | None) -> Price:
        """Take one try out of each budget that it concerns; return what it cost.

        Args:
            address: Where the request comes from; None where that is not known.
            account: Who wants to sign in, as the client says; None where a strategy knows none.

        Raises:
            TooManyRequests: A budget is spent. ``Retry-After`` says how many seconds to wait.
        """
        now = int(self._now() * 1000)
        await self._sweep(now)
        price = await self._price(_network(address), account, now)
        for at, (key, budget) in enumerate(price.costs):
            wait = await _take(self._spent, key, budget, now)
            if wait:
                await self.give_back(price._replace(costs=price.costs[:at]))
                raise _refusal(ceil(wait / 1000))
        return price

    async def give_back(self, price: Price) -> None:
        """Take an attempt for one that never was."""
        for key, budget in price.costs:
            for _ in range(_SWAPS):
                until = await self._spent.read(key)
                if not until or await self._spent.swap(key, until, until - budget.interval):
                    break

    async def reward(self, price: Price) -> None:
        """Take note of a sign-in: it costs nothing, and makes the address known to the account."""
        await self.give_back(price)
        if price.both is not None:
            await _set(self._spent, price.both, price.now)
            await _set(self._known, _key("known", price.both), price.now + self._known_for)

    async def _price(self, address: str | None, account: str | None, now: int) -> Price:
        costs: list[tuple[str, Budget]] = []
        both = None
        if account is not None:
            account = account.strip().casefold()
            both = _key("both", account, address or "")
            costs.append((both, self._both))
            if await self._known.read(_key("known", both)) > now:
                return Price(now, both, costs)
            costs.append((_key("account", account), self._account))
        if address is not None:
            costs.append((_key("address", address), self._address))
        return Price(now, both, costs)

    async def _sweep(self, now: int) -> None:
        if now >= self._sweep_at:
            self._sweep_at = now + self._both.window
            await self._spent.sweep(now)
            await self._known.sweep(now)


async def _take(times: Times, key: str, budget: Budget, now: int) -> int:
    """Take one try out of a budget; return 0, or how many milliseconds there is none."""
    for _ in range(_SWAPS):
        until = await times.read(key)  # when the budget is whole again
        later = max(until, now) + budget.interval
        wait = later - now - budget.window
        if wait > 0:
            return wait
        if await times.swap(key, until, later):
            return 0
    return budget.interval


async def _set(times: Times, key: str, time: int) -> None:
    for _ in range(_SWAPS):
        if await times.swap(key, await times.read(key), time):
            return


def _refusal(seconds: int) -> TooManyRequests:
    error = TooManyRequests(
        f"Too many attempts to sign in; try again in {seconds} second{'s' * (seconds != 1)}"
    )
    error.headers = {"Retry-After": str(seconds)}
    return error


def _key(*parts: str) -> str:
    """Return a short key: what clients send may be long, and shall not stand in a database."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def _network(address: str | None) -> str | None:
    """Return what one sender can not change about an address: of IPv6 the first 64 bits."""
    if address is None:
        return None
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
    return str(found)


def _budget(name: str, tries: int, window: int) -> Budget:
    if type(tries) is not int or tries < 1:
        raise ValueError(f"throttle: {name} is {tries!r}; give a whole number from 1 on")
    return Budget(window, max(1, window // tries))
