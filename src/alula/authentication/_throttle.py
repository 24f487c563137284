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
is looked up, and by the id of its record. A success gives tries back, and makes an address known,
for the id alone. So nobody gets tries for the account of another user by signing in to an account
of their own with a similar name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

from alula._context import Params
from alula._gcra import (
    Budget,
    Cost,
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
from alula.types import Id

__all__ = ["Throttle", "throttle_from"]

CAPACITY: Final = 50_000
"""The number of keys that are kept in memory, some 10 MB."""

_MAX_NAME_LENGTH: Final = 4096  # further characters of a name are ignored


@dataclass(eq=False)
class Payment:
    """What a sign-in has paid, and for which account.

    Attributes:
        network: Where it comes from; None where that is not known.
        name: The key of the account's name, None where the strategy knows none.
        account: The key of the account, None until it is looked up.
        costs: The tries that were taken; the first one is for the name and the network.
        wait: For how many milliseconds a budget is spent that known networks do not need.
    """

    network: str | None
    name: str | None = None
    account: str | None = None
    costs: list[Cost] = field(default_factory=list["Cost"])
    wait: int = 0


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
        self._spent: Times = MemoryTimes(CAPACITY, now)
        self._known: Times = MemoryTimes(CAPACITY, now)
        self._payments: WeakKeyDictionary[Attempt, Payment] = WeakKeyDictionary()
        self._realm = ""

    async def setup(self, authentication: Any) -> None:
        """Find the service that stores the budgets, if one is configured.

        Raises:
            ValueError: It is not registered, or clients can call it.
        """
        entities = authentication.entities
        # Authentication services for different users may share a store, but not their budgets.
        self._realm = "" if entities is None else entities.path
        if self._service is not None:
            handle = private_service(authentication.app, self._service, "throttle['service']")
            self._spent = self._known = ServiceTimes(handle, self._now)

    @property
    def shared_times(self) -> Times | None:
        """The store that several processes share, None without one."""
        return None if self._service is None else self._spent

    async def reset(self) -> None:
        """Forget all failed attempts and all known addresses."""
        await self._spent.clear()
        await self._known.clear()

    # -- budgets -------------------------------------------------------------------------------

    async def take(self, name: str, key: str, tries: int, window: Duration) -> int:
        """Take one try out of a budget of your own, such as for mails or codes.

        It is kept where the tries of sign-ins are, under a hash of its name and key.

        Args:
            name: What the budget is for, such as ``"reset mails"``.
            key: Whose budget it is: the id of an account, or an address.
            tries: How many tries it has.
            window: How long a budget that is spent takes to refill, evenly: seconds, or a text such
                as ``"1h"``.

        Returns:
            0, or the seconds until there is a try.

        Raises:
            ValueError: The number of tries is below 1, or the duration is not valid.

        Examples:
            >>> import asyncio
            >>> from alula.authentication import Throttle
            >>> throttle = Throttle()
            >>> asyncio.run(throttle.take("reset mails", "user 1", 3, "1h"))
            0
        """
        cost = self._own_cost(name, key, tries, window)
        return ceil(await self._spent.spend([cost]) / 1000)

    async def give_back(self, name: str, key: str, tries: int, window: Duration) -> None:
        """Give back a try that `take` took, where only failures count.

        Args:
            name: As for `take`.
            key: As for `take`.
            tries: As for `take`.
            window: As for `take`.

        Examples:
            >>> import asyncio
            >>> from alula.authentication import Throttle
            >>> throttle, codes = Throttle(), ("codes", "user 1", 1, "24h")
            >>> async def two_right_codes() -> list[int]:
            ...     first = await throttle.take(*codes)
            ...     await throttle.give_back(*codes)
            ...     return [first, await throttle.take(*codes)]
            >>> asyncio.run(two_right_codes())
            [0, 0]
        """
        await self._spent.refund([self._own_cost(name, key, tries, window)])

    def _own_cost(self, name: str, key: str, tries: int, window: Duration) -> Cost:
        budget = _budget(name, tries, milliseconds_of(window, f"throttle: {name}"))
        return Cost(self._key("own", name, key), budget)

    # -- as an extension -----------------------------------------------------------------------

    async def before_attempt(self, attempt: Attempt) -> None:
        """Charge an attempt of a client whose credentials could be guessed.

        Raises:
            TooManyRequests: A budget is spent. ``Retry-After`` says how many seconds to wait.
        """
        params, strategy = attempt.params, attempt.strategy
        if params.provider is None or strategy is None or not strategy.can_be_guessed:
            return
        account = strategy.account_of(attempt.credentials)
        payment = Payment(network_of(params.ip))  # calls over connections have an address, too
        shared: list[Cost] = []  # budgets that known networks do not need
        if payment.network is not None:
            shared.append(Cost(self._key("address", payment.network), self._address))
        if account is not None:
            name = self._key("name", fold_username(account[:_MAX_NAME_LENGTH]))
            payment.name = name
            shared.append(Cost(self._key("account", name), self._account))
            await self._charge(payment, [self._small(payment, name)])
        payment.wait = await self._spent.spend(shared)
        if not payment.wait:
            payment.costs += shared
        elif payment.name is None or not await self._is_known(payment, ""):
            await self._refuse(payment)
        if account is not None and not strategy.looks_up_account:
            # Without a look-up, each spelling of a name may be an account of its own.
            await self._charge_account(payment, self._key("as sent", strategy.name, account))
        self._payments[attempt] = payment

    async def account_found(self, attempt: Attempt, id: Id) -> None:
        """Charge the account of an attempt, too.

        Raises:
            TooManyRequests: A budget is spent.
        """
        payment = self._payments.get(attempt)
        if payment is not None and payment.name is not None:
            # An account that does not exist is counted, too. Otherwise it could be recognized.
            account = ("none", payment.name) if id is None else ("id", str(id))
            await self._charge_account(payment, self._key(*account))

    async def after_failure(self, attempt: Attempt, error: Exception) -> None:
        """Give the tries back if it was the server that failed.

        Raises:
            TooManyRequests: A budget is spent, and the strategy has not called `account_found`.
        """
        payment = self._payments.get(attempt)
        if payment is None:
            return
        if not (isinstance(error, FrameworkError) and error.code < 500):
            await self._spent.refund(payment.costs)
        elif payment.wait:
            await self._refuse(payment)

    async def after_success(self, attempt: Attempt) -> None:
        """Give the tries back, and those of the failures before for the same account from here.

        The network is known to the account from now on.

        Raises:
            TooManyRequests: A budget is spent, and the strategy has not called `account_found`.
        """
        payment = self._payments.get(attempt)
        if payment is None:
            return
        if payment.wait:
            await self._refuse(payment)
        await self._spent.refund(payment.costs)
        account, name = payment.account, payment.name
        if account is None or name is None:
            return
        by_account, by_name = self._small(payment, account).key, self._small(payment, name).key
        known = [self._known_key(payment, known_to) for known_to in (account, "")]
        now = self._spent.milliseconds()
        failed = await self._spent.read(by_account) - now
        if failed > 0:
            await self._spent.add(by_name, -failed)
            await self._spent.put(by_account, now)
        await self._known.sweep_once_in(self._both.window)
        for key in known:  # "": known to any account, for the check by name
            await self._known.put(key, now + self._known_for)

    async def before_new_password(self, params: Params) -> None:
        """Count a password that a client sets, before it is hashed.

        Raises:
            TooManyRequests: The budget of the address is spent.
        """
        network = network_of(params.ip)
        if params.provider is None or network is None:
            return
        cost = Cost(self._key("new password", network), self._new_passwords)
        if wait := await self._spent.spend([cost]):
            raise too_many_requests("Too many new passwords from this address", wait)

    # -- one attempt ---------------------------------------------------------------------------

    async def _charge_account(self, payment: Payment, account: str) -> None:
        """Take tries for the account, which is now known."""
        payment.account = account
        costs = [self._small(payment, account)]
        if await self._is_known(payment, account):
            await self._spent.refund(payment.costs[1:])
            payment.costs, payment.wait = payment.costs[:1], 0
        elif payment.wait:
            await self._refuse(payment)
        else:
            costs.append(Cost(self._key("account", account), self._account))
        await self._charge(payment, costs)

    async def _charge(self, payment: Payment, costs: list[Cost]) -> None:
        """Take tries, or refuse the attempt."""
        payment.wait = await self._spent.spend(costs)
        if payment.wait:
            await self._refuse(payment)
        payment.costs += costs

    async def _refuse(self, payment: Payment) -> NoReturn:
        await self._spent.refund(payment.costs)
        payment.costs = []
        raise too_many_requests("Too many attempts to sign in", payment.wait)

    # -- keys ----------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        """Return a short key; databases must not have what clients send, which may also be long."""
        # What clients send comes last, so a NUL in it cannot imitate another part.
        text = "\0".join((self._realm, *parts)).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16).hexdigest()

    def _small(self, payment: Payment, account: str) -> Cost:
        """Return the cost for one account from one network."""
        return Cost(self._key("both", account, payment.network or ""), self._both)

    def _known_key(self, payment: Payment, account: str) -> str:
        return self._key("known", account, payment.network or "")

    async def _is_known(self, payment: Payment, account: str) -> bool:
        known_until = await self._known.read(self._known_key(payment, account))
        return known_until > self._known.milliseconds()


def throttle_from(options: Mapping[str, Any] | bool) -> Throttle | None:
    """Return the throttle with these options, None for False.

    Raises:
        TypeError: They are neither True, False nor a mapping: the text "off" would turn it on.
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
