"""The throttle: limits attempts to sign in by GCRA, the generic cell rate algorithm.

There are three budgets of tries, and each failed attempt costs one try of all three:

- for one account from one address: the small budget, which stops guessing a password;
- for one address, whatever the account: stops one password that is tried on many accounts;
- for one account, whatever the address: stops many addresses that work together.

An address from which somebody has signed in to an account is *known* to it for a time. It pays for
that account from the small budget only. So strangers spend the tries of strangers, and users still
sign in from their known addresses. From a new address they cannot, while strangers go on spending
the budget of the account.

An attempt is paid for before the password is checked: of a thousand attempts at once, ten are
checked.

An account is counted twice: by the name that was sent, folded (`fold_username`), before the account
is looked up, and by the id of its record. What a sign-in gives back, and which address it makes
known, depends on the id alone. So nobody gets tries for the account of another user by signing in
to an account of their own whose name looks alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

from alula._context import Params
from alula._gcra import (
    Budget,
    MemoryTimes,
    ServiceTimes,
    Times,
    too_many_requests,
)
from alula._identity import private_service
from alula._shares import network_of
from alula.authentication._access_tokens import Duration, milliseconds_of
from alula.authentication._attempt import Attempt, Extension
from alula.authentication._entities import fold_username
from alula.errors import FrameworkError
from alula.types import Id, is_mapping

__all__ = ["Throttle", "throttle_from"]

CAPACITY: Final = 50_000
"""The number of keys that are kept in memory, some 10 MB."""

_MAX_NAME_LENGTH: Final = 4096  # further characters of a name are ignored


class Price:
    """What a sign-in has paid, and for which account.

    Args:
        address: Where it comes from; None where that is not known.
        name: The key of the account's name, None where the strategy knows none.

    Attributes:
        account: The key of the account, None until it is looked up.
        costs: The keys and budgets that have paid; the first is that of name and address.
        wait: For how many milliseconds a budget is spent that known addresses do not need.
    """

    def __init__(self, address: str | None, name: str | None) -> None:
        self.address, self.name = address, name
        self.account: str | None = None
        self.costs: list[tuple[str, Budget]] = []
        self.wait = 0


class Throttle(Extension):
    """Limits attempts to sign in, by account and by address.

    Args:
        tries: Failures for one account from one address within the window.
        per_address: Failures from one address within the window, whatever the account. Of an IPv6
            address the first 64 bits count.
        per_account: Failures for one account within the window, whatever the address.
        new_passwords: Passwords set from one address within the window, above all by
            registrations, since each takes the time of a hash.
        window: How long a budget that is spent takes to refill, evenly: seconds, or a text such as
            ``"15m"``.
        known: How long an address stays known to an account after a sign-in.
        service: Path of a service of the application that stores the budgets for several
            processes. None keeps them in the memory of this process.
        now: The clock, in seconds.

    Raises:
        ValueError: A number of tries is below 1, or a duration is not valid.

    Examples:
        >>> from alula.authentication import Throttle
        >>> throttle = Throttle(tries=5, window="10m")
    """

    def __init__(
        self,
        *,
        tries: int = 10,
        per_address: int = 50,
        per_account: int = 50,
        new_passwords: int = 50,
        window: Duration = "15m",
        known: Duration = "30d",
        service: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        length = milliseconds_of(window, "throttle: window")
        self._both = _budget("tries", tries, length)
        self._address = _budget("per_address", per_address, length)
        self._account = _budget("per_account", per_account, length)
        self._new_passwords = _budget("new_passwords", new_passwords, length)
        self._known_for = milliseconds_of(known, "throttle: known")
        self._service = service
        self._now = now
        self._spent: Times = MemoryTimes(CAPACITY)
        self._known: Times = MemoryTimes(CAPACITY)
        self._prices: WeakKeyDictionary[Attempt, Price] = WeakKeyDictionary()
        self._authentication: Any = None
        self._realm = ""
        self._sweep_at = 0

    async def setup(self, authentication: Any) -> None:
        """Find the service that stores the budgets, if one is configured.

        Raises:
            ValueError: It is not registered, or clients can call it.
        """
        self._authentication = authentication
        entities = authentication.entities
        # Authentication services for different users may share a store, but not their budgets.
        self._realm = "" if entities is None else entities.path
        if self._service is not None:
            handle = private_service(authentication.app, self._service, "throttle['service']")
            self._spent = self._known = ServiceTimes(handle)

    @property
    def shared_times(self) -> Times | None:
        """The store that several processes share, None without one."""
        return None if self._service is None else self._spent

    async def reset(self) -> None:
        """Forget all failed attempts and all known addresses."""
        await self._spent.clear()
        await self._known.clear()

    # -- as an extension -----------------------------------------------------------------------

    async def before_attempt(self, attempt: Attempt) -> None:
        """Charge an attempt of a client whose credentials could be guessed.

        Raises:
            TooManyRequests: A budget is spent. ``Retry-After`` says how many seconds to wait.
        """
        credentials = attempt.credentials
        if attempt.params.provider is None or not is_mapping(credentials):
            return
        name = credentials.get("strategy")
        if not isinstance(name, str) or name not in self._authentication.strategies:
            return
        strategy = self._authentication.strategy(name)
        if strategy.can_be_guessed:
            self._prices[attempt] = await self.pay(
                attempt.params.get("ip"),  # also of a real-time connection
                strategy.account_of(credentials),
                strategy=strategy.name,
                is_looked_up=strategy.looks_up_account,
            )

    async def account_found(self, attempt: Attempt, id: Id) -> None:
        """Charge the account of an attempt, too.

        Raises:
            TooManyRequests: A budget is spent.
        """
        price = self._prices.get(attempt)
        if price is not None and price.name is not None:
            # An account that does not exist is counted like one that does: else it would show.
            account = ("none", price.name) if id is None else ("id", str(id))
            await self._pay_for(price, self._key(*account))

    async def after_failure(self, attempt: Attempt, error: Exception) -> None:
        """Give the price back if it was the server that failed.

        Raises:
            TooManyRequests: A budget is spent, and the strategy has not called `account_found`.
        """
        price = self._prices.get(attempt)
        if price is None:
            return
        if not (isinstance(error, FrameworkError) and error.code < 500):
            await self._give_back(price)
        elif price.wait:
            await self._refuse(price)

    async def after_success(self, attempt: Attempt) -> None:
        """Give the price back, and remember that the address is known to the account.

        Raises:
            TooManyRequests: A budget is spent, and the strategy has not called `account_found`.
        """
        price = self._prices.get(attempt)
        if price is None:
            return
        if price.wait:
            await self._refuse(price)
        await self.reward(price)

    async def before_new_password(self, params: Params) -> None:
        """Count a password that a client sets, before it is hashed.

        Raises:
            TooManyRequests: The budget of the address is spent.
        """
        address = network_of(params.get("ip"))
        if params.provider is None or address is None:
            return
        await self._sweep()
        wait = await self._spent.take(
            self._key("new password", address), self._new_passwords, self._milliseconds
        )
        if wait:
            raise too_many_requests("Too many new passwords from this address", wait)

    # -- one attempt ---------------------------------------------------------------------------

    async def pay(
        self,
        address: str | None,
        account: str | None,
        *,
        strategy: str = "",
        is_looked_up: bool = False,
    ) -> Price:
        """Take one try out of each budget of an attempt, and return what was paid.

        Args:
            address: The client's address; None where it is not known.
            account: The name of the account, as it was sent; None where a strategy knows none.
            strategy: The name of the strategy.
            is_looked_up: Whether `account_found` follows. Otherwise the account is identified by
                its name as it was sent, together with the strategy.

        Raises:
            TooManyRequests: A budget is spent. ``Retry-After`` says how many seconds to wait.
        """
        await self._sweep()
        name = None
        if account is not None:
            name = self._key("name", fold_username(account[:_MAX_NAME_LENGTH]))
        price = Price(network_of(address), name)
        if name is not None:
            await self._charge(price, self._small(price, name), self._both)
        shared = [] if name is None else [(self._key("account", name), self._account)]
        if price.address is not None:
            shared.append((self._key("address", price.address), self._address))
        for key, budget in shared:  # budgets that known addresses do not need
            wait = await self._spent.take(key, budget, self._milliseconds)
            price.wait = max(price.wait, wait)
            if not wait:
                price.costs.append((key, budget))
        if price.wait and (name is None or not await self._is_known(price, "")):
            await self._refuse(price)
        if account is not None and not is_looked_up:
            await self._pay_for(price, self._key("as sent", strategy, account))
        return price

    async def reward(self, price: Price) -> None:
        """Give back the price of a sign-in that succeeded, and of the failures before it.

        Only failures for the same account from the same address are forgiven.

        Args:
            price: What the sign-in has paid.
        """
        await self._give_back(price)
        account = price.account
        if account is None or price.name is None:
            return
        small, now = self._small(price, account), self._milliseconds()
        failed = await self._spent.read(small) - now
        if failed > 0:
            await self._spent.add(self._small(price, price.name), -failed)
            await self._spent.update(small, lambda _: now)
        for known_to in (account, ""):  # "": known to any account, for the check by name
            key = self._known_key(price, known_to)
            await self._known.update(key, lambda _: now + self._known_for)

    async def _pay_for(self, price: Price, account: str) -> None:
        """Take one try out of the budgets of the account, which is now known."""
        price.account = account
        shared: list[tuple[str, Budget]] = []
        if await self._is_known(price, account):
            small, *rest = price.costs
            price.costs, price.wait = [small], 0
            for key, budget in rest:
                await self._spent.add(key, -budget.interval)
        elif price.wait:
            await self._refuse(price)
        else:
            shared = [(self._key("account", account), self._account)]
        for key, budget in [(self._small(price, account), self._both), *shared]:
            await self._charge(price, key, budget)

    async def _charge(self, price: Price, key: str, budget: Budget) -> None:
        price.wait = await self._spent.take(key, budget, self._milliseconds)
        if price.wait:
            await self._refuse(price)
        price.costs.append((key, budget))

    async def _give_back(self, price: Price) -> None:
        """Give back all tries that were paid."""
        for key, budget in price.costs:
            await self._spent.add(key, -budget.interval)
        price.costs = []

    async def _refuse(self, price: Price) -> NoReturn:
        await self._give_back(price)
        raise too_many_requests("Too many attempts to sign in", price.wait)

    # -- keys ----------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        """Return a short key; databases must not have what clients send, which may also be long."""
        # What clients send comes last, so a NUL in it cannot imitate another part.
        text = "\0".join((self._realm, *parts)).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16).hexdigest()

    def _small(self, price: Price, account: str) -> str:
        return self._key("both", account, price.address or "")

    def _known_key(self, price: Price, account: str) -> str:
        return self._key("known", account, price.address or "")

    async def _is_known(self, price: Price, account: str) -> bool:
        return await self._known.read(self._known_key(price, account)) > self._milliseconds()

    # -- times ---------------------------------------------------------------------------------

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)

    async def _sweep(self) -> None:
        """Remove times that have passed, once per window."""
        now = self._milliseconds()
        # A clock that was set back must not keep the sweep away.
        if not self._sweep_at - self._both.window <= now < self._sweep_at:
            self._sweep_at = now + self._both.window
            await self._spent.sweep(now)
            await self._known.sweep(now)


def throttle_from(options: Mapping[str, Any] | bool) -> Throttle | None:
    """Return the throttle with these options, None for False.

    Raises:
        TypeError: They are neither True, False nor a mapping: "off" would turn it on, and None off.
        ValueError: An option is not valid.
    """
    if isinstance(options, bool):
        return Throttle() if options else None
    if not isinstance(options, Mapping):
        raise TypeError(
            f"throttle is {options!r}; write True, False, or options as in {{'tries': 5}}"
        )
    return Throttle(**options)


def _budget(name: str, tries: int, window: int) -> Budget:
    if type(tries) is not int or tries < 1:
        raise ValueError(f"throttle: {name} is {tries!r}; give a whole number of at least 1")
    return Budget(window, max(1, window // tries))
