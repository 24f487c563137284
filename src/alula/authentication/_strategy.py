"""What a strategy is: one way to prove who is calling."""
# ruff: noqa: ARG002  # what is here is to be overridden

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final

from alula._context import Params
from alula.authentication._entities import check_property

__all__ = ["CONFIRM", "AuthenticationStrategy"]

CONFIRM: Final = "confirm_sign_in"
"""What a strategy may leave in the params of a sign-in: an async function without arguments.

It is called once the session is there, and raises where the proof is no longer good.
"""


class AuthenticationStrategy:
    """One way to prove who is calling; derive from it for a way of your own.

    Attributes:
        name: The name under which it is registered.
        authentication: The authentication service it belongs to.
        app: The application of that service.
        secret_fields: Fields of a user's record that nobody gets to see: they are left out of
            ``params.user`` and of every answer.
        can_be_guessed: Whether trying again and again may lead to a proof, so that tries have to
            be limited.
        looks_up_account: Whether `authenticate` calls ``self.authentication.account_found(id,
            params)`` once it has looked for the account, and before it checks anything. The
            throttle then counts by the account. Otherwise it counts by the name in `account_of`.
    """

    name: str = ""
    authentication: Any = None
    app: Any = None
    secret_fields: tuple[str, ...] = ()
    can_be_guessed: bool = True
    looks_up_account: bool = False

    def register(self, name: str, authentication: Any) -> None:
        """Take note of the service; called by its ``register``.

        Raises:
            ValueError: The strategy is registered somewhere else already, or one of its
                `secret_fields` is no property of its own.
        """
        if self.authentication not in {None, authentication} or self.name not in {"", name}:
            raise ValueError(
                f"the strategy {name!r} is already registered, as {self.name!r}; make one instance"
                " for each place where it is used"
            )
        for field in self.secret_fields:
            check_property(field, f"the strategy {name!r}")
        self.name, self.authentication, self.app = name, authentication, authentication.app

    async def setup(self) -> None:
        """Prepare, and check whether all is there; called when the application is set up."""

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a proof.

        Args:
            authentication: What was sent: ``strategy`` and what belongs to it. Any JSON.
            params: The params of the call; ``params.provider`` is None for internal ones.

        Returns:
            ``{"authentication": {"strategy": self.name}}``, and under the name of the entity
            (``"user"``) its record. All of it but ``accessToken`` gets into ``params``.

        Raises:
            NotAuthenticated: It proves nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no authenticate(...)")

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return whose account a proof is for, as the client says; None where it does not say."""
        return None

    def parse(
        self, req: Any, res: Any
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None:
        """Return the proof that a request carries, as `authenticate` takes it, None for none.

        It runs for every request, so it is a plain function wherever it can be one.
        """
        return None
