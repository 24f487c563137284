"""The service `authManagement`: addresses and passwords, as FeathersJS front ends call it.

What holds in this file:

- The actions that send a mail read nothing before they respond. So text, status and time are the
  same whether there is an account or not.
- A link or code that is wrong, used, expired or replaced gets the same error.
- An action checks a password by a sign-in without a token, so the throttle and the timing of
  sign-ins apply.
- A link is bound to the address that it was sent to. It is valid as long as the user has that
  address.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from secrets import token_urlsafe
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from alula._context import Params
from alula._identity import Application, identify
from alula.accounts._addresses import folded_address
from alula.accounts._browsers import browser_of, is_in_browser
from alula.accounts._budgets import charge_network
from alula.accounts._guards import RECENT_SECONDS, signed_in_within
from alula.accounts._mail import Outbox
from alula.accounts._messages import Messages
from alula.accounts._proofs import (
    CODE_DIGITS,
    PURPOSES,
    TOKEN_LENGTH,
    Proofs,
    Purpose,
    StoredProof,
)
from alula.accounts._refusals import refusal
from alula.accounts._strategies import skip_second_step
from alula.accounts._users import PasswordRules
from alula.authentication import HashedPassword, LocalStrategy
from alula.authentication._entities import without
from alula.errors import Conflict, NotAuthenticated
from alula.outgoing import public_part
from alula.types import Id, is_mapping

__all__ = ["AuthManagement", "password_strategy"]

_WAYS_IN: Final = (*PURPOSES, "key", "identity", "passkey")
"""The kinds of records in the store that let somebody in."""
_ENDED_BY_RESET: Final[tuple[Purpose, ...]] = (
    "verify",
    "reset",
    "link",
    "link_identity",
    "change",
)
_NOT_VALID: Final = "The link or code is not valid any more. Ask for a new one."
_VERIFY: Final[tuple[Purpose, ...]] = ("verify", "change", "undo")

# Of one network:
_MAILS_AN_HOUR: Final = 20
_LOOK_UPS_AN_HOUR: Final = 20
_WRONG_LINKS_AN_HOUR: Final = 30
_CODES_AN_HOUR: Final = 30
# Of one account:
_CODES_A_DAY: Final = 10


class _Call(NamedTuple):
    """One call of an action.

    Attributes:
        value: What the action needs; any JSON.
        params: The params of the call.
        data: All that the client has sent.
    """

    value: Any
    params: Params
    data: Mapping[str, Any]


_Action: TypeAlias = Callable[[_Call], Awaitable[Any]]
_Link: TypeAlias = Callable[[StoredProof], Awaitable[bool]]


class AuthManagement:
    """The service; `Accounts` makes and registers it.

    Args:
        authentication: The authentication service.
        proofs: The store of links and codes.
        messages: Sends mails.
        outbox: Runs the jobs of the messages.
        rules: The rules of passwords.
        address: The property of users that has the address.
        verified: The property that says whether it is proved.
        codes: Whether codes count.
        check_unique: Whether clients may ask if an address is taken.
        magic_link: Whether clients may ask for a link that signs in: ``"anywhere"``, or True for a
            link that counts in the same browser only.

    Attributes:
        secret_events: True: its events may have tokens, so they are never published.
    """

    secret_events = True

    def __init__(
        self,
        authentication: Any,
        proofs: Proofs,
        messages: Messages,
        outbox: Outbox,
        rules: PasswordRules,
        *,
        address: str,
        verified: str,
        codes: bool,
        check_unique: bool,
        magic_link: bool | str,
    ) -> None:
        self._authentication = authentication
        self._proofs = proofs
        self._messages = messages
        self._outbox = outbox
        self._rules = rules
        self._address = address
        self._verified = verified
        self._magic_link = magic_link
        self._actions: dict[str, _Action] = {
            "options": self._options,
            "resendVerifySignup": self._resend_verify_signup,
            "sendResetPwd": self._send_reset_password,
            "verifySignupLong": self._verify_by_link,
            "verifySignupSetPasswordLong": self._set_first_password,
            "resetPwdLong": self._reset_password,
            "passwordChange": self._change_password,
            "identityChange": self._change_address,
        }
        if codes:
            self._actions |= {
                "verifySignupShort": self._verify_by_code,
                "verifySignupSetPasswordShort": self._set_first_password_by_code,
                "resetPwdShort": self._reset_password_by_code,
            }
        if check_unique:
            self._actions["checkUnique"] = self._check_unique
        if magic_link:
            self._actions["sendMagicLink"] = self._send_magic_link

    def offer_link_identity(self, link: _Link) -> None:
        """Offer the action that links an identity by a link in a mail.

        Args:
            link: Links the identity of a link that was used up, and returns whether it is now that
                user's.
        """
        self._actions["linkIdentity"] = partial(self._link_identity, link)

    async def setup(self, app: Application, path: str) -> None:  # noqa: ARG002  # as applications call it
        """Find the store, and check the mailer."""
        self._messages.check(app)
        self._proofs.setup(app, self._authentication)

    async def teardown(self, app: Application, path: str) -> None:  # noqa: ARG002  # as above
        """Wait for the mails that are under way."""
        await self._outbox.close()

    async def create(self, data: object, params: Params) -> Any:
        """Run one action: ``{"action": "sendResetPwd", "value": {"email": "ada@example.com"}}``.

        Raises:
            BadRequest: There is no such action, or it refuses the value.
        """
        name = data.get("action") if is_mapping(data) else None
        action = self._actions.get(name) if isinstance(name, str) else None
        if action is None or not is_mapping(data):
            _refuse_shape(f"This action does not exist here; there are {', '.join(self._actions)}")
        return await action(_Call(data.get("value"), params, data))

    # -- what anybody may ask ------------------------------------------------------------------

    async def _options(self, _: _Call) -> Mapping[str, Any]:
        return {
            "longTokenLen": TOKEN_LENGTH,
            "shortTokenLen": CODE_DIGITS,
            "shortTokenDigits": True,
            "identifyUserProps": [self._address],
        }

    async def _check_unique(self, call: _Call) -> None:
        address = self._address_in(call.value)
        await self._take("look-ups", call.params, _LOOK_UPS_AN_HOUR)
        user = await self._messages.find_user(address)
        if user is None:
            return
        own_id = call.data.get("ownId")
        if own_id is not None:
            caller = self._entities.id_of(await self._caller(call.params))
            if caller is not None and str(own_id) == str(caller) == str(self._entities.id_of(user)):
                return
        meta = call.data.get("meta")
        is_silent = is_mapping(meta) and meta.get("noErrMsg") is True
        text = "Error" if is_silent else "Values already taken."
        raise refusal(text, **{self._address: "Already taken."})

    async def _resend_verify_signup(self, call: _Call) -> Mapping[str, Any]:
        address = self._address_in(call.value)
        await self._take("mails", call.params, _MAILS_AN_HOUR)
        self._messages.verify(address)
        return {self._address: call.value[self._address]}

    async def _send_reset_password(self, call: _Call) -> Mapping[str, Any]:
        address = self._address_in(call.value)
        await self._take("mails", call.params, _MAILS_AN_HOUR)
        self._messages.reset(address)
        return {self._address: call.value[self._address]}

    async def _send_magic_link(self, call: _Call) -> Mapping[str, Any]:
        address = self._address_in(call.value)
        browser = browser_of(call.params)
        if self._magic_link is True and browser is None:
            _refuse_shape("Ask for the link over HTTP: the browser needs a cookie")
        await self._take("mails", call.params, _MAILS_AN_HOUR)
        self._messages.sign_in_link(address, browser)
        return {self._address: call.value[self._address]}

    # -- with a link or a code -----------------------------------------------------------------

    async def _verify_by_link(self, call: _Call) -> Any:
        token = _text(call.value, "The value")
        proof = await self._proofs.find(_VERIFY, token)
        return await self._verify(proof, call.params)

    async def _verify_by_code(self, call: _Call) -> Any:
        fields = _fields(call.value, "token", "user")
        proof = await self._proof_of_code(("verify", "change"), fields, call.params)
        return await self._verify(proof, call.params)

    async def _set_first_password(self, call: _Call) -> Any:
        return await self._set_password(("verify",), call)

    async def _set_first_password_by_code(self, call: _Call) -> Any:
        return await self._set_password(("verify",), call, by_code=True)

    async def _reset_password(self, call: _Call) -> Any:
        return await self._set_password(("reset",), call)

    async def _reset_password_by_code(self, call: _Call) -> Any:
        return await self._set_password(("reset",), call, by_code=True)

    async def _verify(self, proof: StoredProof | None, params: Params) -> Any:
        """Do what a link of a mail is for: confirm an address, change it, or restore it."""
        user = None if proof is None else await self._user_of(proof)
        if proof is None or user is None:
            return await self._refuse_proof("badParam", params)
        user_id, old = self._entities.id_of(user), user[self._address]
        # A change has a new address; what is undone or proved is the address of the mail.
        address: str = proof.data["to" if proof.purpose == "change" else "address"]
        if address != old:
            await self._check_free(address, user_id)
        if not await self._proofs.redeem(proof):
            await self._refuse_proof("badParam", params)
        data: dict[str, Any] = {self._verified: True}
        if address != old:
            data[self._address] = address
        if proof.purpose == "undo":
            data[self._password] = await self._unknown_password()  # a thief knows the other one
            await self._replace_owner(user, data, proof.purpose)
            self._messages.restored({**user, self._address: address})
        else:
            await self._patch(user, data, proof.purpose)
        return await self._shown(user_id, params)

    async def _set_password(
        self, purposes: tuple[Purpose, ...], call: _Call, *, by_code: bool = False
    ) -> Any:
        """Set a password for the owner of a link or code; all sessions of the user end."""
        params = call.params
        fields = _fields(call.value, "token", "password", *(["user"] if by_code else []))
        if by_code:
            proof = await self._proof_of_code(purposes, fields, params)
        else:
            token = _text(fields["token"], "token")
            proof = await self._proofs.find(purposes, token)
        class_name = "invalidToken" if "reset" in purposes else "badParam"
        user = None if proof is None else await self._user_of(proof)
        if proof is None or user is None:
            return await self._refuse_proof(class_name, params)
        # A password that is refused, or cannot be hashed now, does not cost the link.
        hashed = await self._hashed(fields["password"], user, params)
        if not await self._proofs.redeem(proof):
            await self._refuse_proof(class_name, params)
        user_id = self._entities.id_of(user)
        data = {self._password: hashed, self._verified: True}
        if user.get(self._verified) is True:
            await self._patch(user, data, proof.purpose)
            await self._proofs.forget(user_id, *_ENDED_BY_RESET)
        else:
            await self._replace_owner(user, data, proof.purpose)
        self._messages.tell("password_changed", user)
        return await self._shown(user_id, params)

    async def _link_identity(self, link: _Link, call: _Call) -> Any:
        token, params = _text(call.value, "The value"), call.params
        proof = await self.redeem_link(
            token, params, lambda proof: is_in_browser(proof, params), "link_identity"
        )
        if proof is None:
            raise refusal(_NOT_VALID, "badParam")
        if not await link(proof):
            text = "This identity belongs to another account"
            raise Conflict(text, data={"code": "already_linked"})
        return await self._shown(proof.user_id, params)

    async def redeem_link(
        self,
        token: object,
        params: Params,
        is_here: Callable[[StoredProof], bool],
        purpose: Purpose = "link",
    ) -> StoredProof | None:
        """Use up a link, by default one that signs in; return its proof, None if it is not valid.

        Args:
            token: Any value that a client has sent.
            params: The params of the call.
            is_here: Tells whether the link counts for this caller.
            purpose: What the link is for.

        Raises:
            TooManyRequests: There were too many wrong links from this address.
        """
        proof = None
        if isinstance(token, str):
            proof = await self._proofs.find((purpose,), token)
        is_valid = proof is not None and is_here(proof) and await self._user_of(proof) is not None
        if proof is not None and is_valid and await self._proofs.redeem(proof):
            return proof
        await self._take("wrong links", params, _WRONG_LINKS_AN_HOUR)
        return None

    async def take_over(self, user_id: str, action: str) -> None:
        """Mark the address of a user as confirmed by a sign-in.

        If it was not confirmed before, a stranger may have made the account and know its password.
        So the password, all sessions, API keys, identities and passkeys are removed.

        Args:
            user_id: The id of the user.
            action: How the address was confirmed, for hooks.
        """
        user = await self._entities.get(user_id, Params())
        if user.get(self._verified) is not True:
            data = {self._verified: True, self._password: await self._unknown_password()}
            await self._replace_owner(user, data, action)

    async def _replace_owner(
        self, user: Mapping[str, Any], data: dict[str, Any], action: str
    ) -> None:
        """Set a password, and end all other ways in: they may be those of a stranger.

        The second factor is removed only if a provider confirms who this is. A mail is not enough:
        the factor protects people whose mails somebody else can read.
        """
        user_id = self._entities.id_of(user)
        kinds = () if action == "oauth" else _WAYS_IN
        await self._proofs.forget(user_id, *kinds)
        await self._patch(user, data, action)  # all sessions end
        await self._proofs.forget(user_id, *kinds)  # what those sessions have added meanwhile

    async def _unknown_password(self) -> str:
        """Return the hash of a password that nobody knows."""
        hashed: str = await self._local.hash_password(token_urlsafe(32))
        return hashed

    # -- with a password -----------------------------------------------------------------------

    async def _change_password(self, call: _Call) -> Any:
        fields = _fields(call.value, "user", "oldPassword", "password")
        old_password = _text(fields["oldPassword"], "oldPassword")
        user = await self._checked(fields["user"], old_password, call.params)
        if user is None:
            text = "Current password is incorrect."
            raise refusal(text, oldPassword=text)
        hashed = await self._hashed(fields["password"], user, call.params)
        user_id, kept = self._entities.id_of(user), {}
        if call.params.authentication is not None:  # the caller's own session goes on
            kept = {"keeps_session": True, "authentication": call.params.authentication}
        await self._patch(user, {self._password: hashed}, "passwordChange", **kept)
        await self._proofs.forget(user_id, "reset", "link", "link_identity")
        self._messages.tell("password_changed", user)
        return await self._shown(user_id, call.params)

    async def _change_address(self, call: _Call) -> Any:
        fields = _fields(call.value, "user", "password", "changes")
        address = self._address_in(fields["changes"])
        password = _text(fields["password"], "password")
        user = await self._checked(fields["user"], password, call.params)
        if user is None:
            text = "Password is incorrect."
            raise refusal(text, "badParams", password=text)
        self._messages.change(user, address)
        return await self._shown(self._entities.id_of(user), call.params)

    async def _checked(
        self, user: object, password: str, params: Params
    ) -> Mapping[str, Any] | None:
        """Return the user whose address and password these are, None if they are not right.

        Raises:
            NotAuthenticated: The caller sent a token that is not valid, or the address has to be
                proved before, or a second factor is needed: sign in with it, and call again.
            TooManyRequests: There were too many attempts to sign in.
        """
        address = self._address_in(user)
        caller = await self._caller(params)
        if caller is not None and signed_in_within(RECENT_SECONDS, params):
            params = skip_second_step(params)
        local = self._local
        credentials = {
            "strategy": local.name,
            local.username_field: address,
            local.password_field: password,
        }
        try:
            attempt = await self._authentication.check(credentials, params)
        except NotAuthenticated as error:
            if error.data is not None:  # not the password is wrong, but something else is asked
                raise
            return None
        found: Mapping[str, Any] = attempt.result[self._entities.name]
        if caller is not None and self._entities.id_of(caller) != self._entities.id_of(found):
            return None
        return found

    async def _caller(self, params: Params) -> Mapping[str, Any] | None:
        """Return the user who is signed in, None if nobody is."""
        if params.authentication is None:
            return None
        strategy = self._authentication.token_strategy
        await identify(self._authentication, params, (strategy.name,))
        caller: Mapping[str, Any] | None = params.get(self._entities.name)
        return caller

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _entities(self) -> Any:
        return self._authentication.entities

    @property
    def _local(self) -> LocalStrategy:
        return password_strategy(self._authentication)

    @property
    def _password(self) -> str:
        return self._local.entity_password_field

    def _address_in(self, value: object) -> str:
        """Return the folded address of a value that has nothing else."""
        address = folded_address(_fields(value, self._address)[self._address])
        if address is None:
            _refuse_shape(f"{self._address} has to be an e-mail address")
        return address

    async def _proof_of_code(
        self, purposes: tuple[Purpose, ...], fields: Mapping[str, Any], params: Params
    ) -> StoredProof | None:
        """Return the proof of a code; all failures take the same time."""
        started = time.perf_counter()
        code, address = _text(fields["token"], "token"), self._address_in(fields["user"])
        await self._take("codes", params, _CODES_AN_HOUR)
        user = await self._messages.find_user(address)
        user_id = self._entities.id_of(user)
        throttle, proof = self._authentication.throttle, None
        is_over = (
            throttle is not None
            and user_id is not None
            and await throttle.take("accounts: codes", str(user_id), _CODES_A_DAY, "24h")
        )
        if not is_over:
            proof = await self._proofs.find_by_code(purposes, user_id, code)
        if proof is None:
            await self._local.passwords.until_floor(started)
        return proof

    async def _user_of(self, proof: StoredProof) -> Mapping[str, Any] | None:
        """Return the user of a proof, None if it is not theirs any more."""
        try:
            user: Mapping[str, Any] = await self._entities.get(proof.user_id, Params())
        except NotAuthenticated:
            return None
        is_theirs = proof.purpose == "undo" or user.get(self._address) == proof.data["address"]
        return user if is_theirs else None

    async def _refuse_proof(self, class_name: str, params: Params) -> NoReturn:
        await self._take("wrong links", params, _WRONG_LINKS_AN_HOUR)
        raise refusal(_NOT_VALID, class_name)

    async def _check_free(self, address: str, user_id: Id) -> None:
        """Refuse an address that somebody else has, or may still take back.

        Raises:
            Conflict: It is one.
        """
        other = await self._messages.find_user(address)
        reserved = await self._proofs.reserved_for(address)
        if other is not None or reserved not in {None, str(user_id)}:
            raise Conflict("This address is taken", errors={self._address: "Already taken."})

    async def _hashed(
        self, password: object, user: Mapping[str, Any], params: Params
    ) -> HashedPassword:
        self._rules.refuse(password, user[self._address])
        return await self._local.hash_password(password, params)

    async def _patch(
        self, user: Mapping[str, Any], data: dict[str, Any], action: str, **params: Any
    ) -> None:
        """Change a user as the application's own code."""
        is_new_proof = self._verified in data and user.get(self._verified) is not True
        events = ["verified"] if is_new_proof else []
        if self._address in data:
            events.append("address_changed")
        accounts = {"action": action, "events": events}
        user_id = self._entities.id_of(user)
        await self._entities.handle.patch(user_id, data, accounts=accounts, **params)

    async def _shown(self, user_id: Id, params: Params) -> Any:
        """Return a user as they see themselves."""
        record = await self._entities.get(user_id, params)
        shown = await self._entities.shown(record, user_id, params)
        return public_part(without(shown, self._authentication.secret_fields))

    async def _take(self, what: str, params: Params, tries: int) -> None:
        """Take a try out of the budget of a network.

        Raises:
            TooManyRequests: It is spent.
        """
        await charge_network(self._authentication, what, params, tries)


def password_strategy(authentication: Any) -> LocalStrategy:
    """Return the strategy of an authentication service that checks passwords.

    Raises:
        ValueError: It has none.
    """
    for name in authentication.strategies:
        if isinstance(strategy := authentication.strategy(name), LocalStrategy):
            return strategy
    raise ValueError("Accounts needs a LocalStrategy, which checks passwords")


def _refuse_shape(text: str) -> NoReturn:
    raise refusal(text, "badParams")


def _fields(value: object, *names: str) -> Mapping[str, Any]:
    """Return a mapping that has exactly these properties."""
    if not is_mapping(value) or set(value) != {*names}:
        _refuse_shape(f"The value has to be an object with {', '.join(names)}, and nothing else")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        _refuse_shape(f"{name} has to be a text")
    return value
