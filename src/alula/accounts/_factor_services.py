"""The services of `account/` by which people turn their second factor on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from alula._context import Params
from alula._identity import Application
from alula.accounts._addresses import folded_address
from alula.accounts._second_factor import SecondFactor
from alula.accounts._session_list import caller_of, offer_to_callers
from alula.accounts._totp import secret_text, setup_uri
from alula.errors import BadRequest, NotAuthenticated, NotFound
from alula.types import Id, is_mapping

__all__ = ["RecoveryCodesService", "SecondFactorService"]

_PATH: Final = "account/second-factor"
_RECOVERY_PATH: Final = "account/recovery-codes"


class SecondFactorService:
    """The second factor of the caller.

    Args:
        authentication: The authentication service.
        second: The second factor of sign-ins.
        issuer: The name of the application in apps.
        address: The property of users that has the address.

    Attributes:
        secret_events: True: its events have secrets, so they are never published.
    """

    secret_events = True

    def __init__(
        self, authentication: Any, second: SecondFactor, *, issuer: str, address: str
    ) -> None:
        self._authentication = authentication
        self._second = second
        self._issuer = issuer
        self._address = address

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service."""
        strategy = self._authentication.token_strategy.name
        changes = ["create", "patch", "remove"]
        offer_to_callers(
            app, _PATH, self, ["find", *changes], strategy, authentication_path, recently=changes
        )

    async def find(self, params: Params) -> dict[str, Any]:
        """Return what the caller has: ``{"totp", "recoveryCodesLeft"}``."""
        factors, user_id = self._second.factors, caller_of(params)["sub"]
        left = await factors.recovery_codes_left(user_id)
        return {"totp": await factors.is_on(user_id), "recoveryCodesLeft": left}

    async def create(self, data: object, params: Params) -> dict[str, str]:  # noqa: ARG002  # a service's method
        """Begin a set-up: ``{"secret", "uri"}``, for an app. A code of the app confirms it.

        Raises:
            Conflict: The caller has a second factor.
        """
        user_id, user = caller_of(params)["sub"], self._caller(params)
        secret = await self._second.factors.begin(user_id)
        account = folded_address(user.get(self._address)) or user_id
        return {
            "secret": secret_text(secret),
            "uri": setup_uri(secret, self._issuer, account),
        }

    async def patch(self, id: Id, data: object, params: Params) -> dict[str, Any]:
        """Turn the second factor on, by a code of the app: ``{"code"}``.

        Returns:
            ``{"enabled": True, "recoveryCodes"}``. Nothing shows the recovery codes again.

        Raises:
            BadRequest: The data has another form.
            NotAuthenticated: The code is wrong.
            NotFound: No set-up waits for a code.
        """
        _forbid_id(id)
        code = data.get("code") if is_mapping(data) and set(data) == {"code"} else None
        if not isinstance(code, str):
            raise BadRequest('Send the code of the app as a text: {"code": "123456"}')
        codes = await self._second.confirm(self._caller(params), code)
        if codes is None:
            raise NotAuthenticated("The code is wrong", data={"code": "invalid"})
        return {"enabled": True, "recoveryCodes": codes}

    async def remove(self, id: Id, params: Params) -> dict[str, Any]:
        """Turn the second factor off; the recovery codes end, too."""
        _forbid_id(id)
        await self._second.remove(self._caller(params))
        return {"enabled": False}

    def _caller(self, params: Params) -> Mapping[str, Any]:
        caller_of(params)
        caller: Mapping[str, Any] = params[self._authentication.entities.name]
        return caller


class RecoveryCodesService:
    """New recovery codes for the caller.

    Args:
        authentication: The authentication service.
        second: The second factor of sign-ins.

    Attributes:
        secret_events: True: its events have codes, so they are never published.
    """

    secret_events = True

    def __init__(self, authentication: Any, second: SecondFactor) -> None:
        self._authentication = authentication
        self._second = second

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service."""
        strategy, methods = self._authentication.token_strategy.name, ["create"]
        offer_to_callers(
            app, _RECOVERY_PATH, self, methods, strategy, authentication_path, recently=methods
        )

    async def create(self, data: object, params: Params) -> dict[str, list[str]]:  # noqa: ARG002  # a service's method
        """Return ten new codes, once: ``{"recoveryCodes"}``. The old ones end.

        Raises:
            Conflict: Another call does the same at this moment.
            NotFound: The caller has no second factor.
        """
        user_id = caller_of(params)["sub"]
        codes = await self._second.factors.renew_recovery_codes(user_id)
        self._second.messages.tell("recovery_renewed", params[self._authentication.entities.name])
        return {"recoveryCodes": codes}


def _forbid_id(id: Id) -> None:
    if id is not None:
        raise NotFound("There is only one second factor; leave the id out of the path")
