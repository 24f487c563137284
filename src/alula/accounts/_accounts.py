"""`Accounts`: the options, their checks, and what they register.

Without a mailer there are no links and codes, and the options that need them are errors. People can
still sign in with others, and have API keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, Final, Literal, overload
from urllib.parse import urlsplit

from alula._context import Params
from alula._identity import Application, find_authentication
from alula.accounts._api_key_service import ApiKeyService
from alula.accounts._api_key_strategy import ApiKeyStrategy
from alula.accounts._api_keys import STRATEGY, ApiKeys
from alula.accounts._browsers import bind_browser
from alula.accounts._challenges import Challenges
from alula.accounts._events import AccountEventName, EventHandlerT, Events, check_event
from alula.accounts._mail import Mailer, Outbox
from alula.accounts._management import AuthManagement, password_strategy
from alula.accounts._messages import Messages
from alula.accounts._oauth._pages import Pages, check_base_url
from alula.accounts._oauth._replies import Replies
from alula.accounts._passkeys import Passkeys
from alula.accounts._proofs import Proofs
from alula.accounts._relying_party import RelyingParty, relying_party_of
from alula.accounts._session_list import PATH as SESSION_LIST
from alula.accounts._session_list import SessionList
from alula.accounts._strategies import (
    LinkStrategy,
    ProvedAddresses,
    RegisterStrategy,
)
from alula.accounts._texts import KINDS, Locale, Text
from alula.accounts._urls import is_secure
from alula.accounts._users import PasswordRules, UserHooks, forget_removed_users
from alula.accounts._ways_in import WaysIn
from alula.accounts.providers._provider import Provider
from alula.authentication import LocalStrategy
from alula.types import Id

__all__ = ["Accounts"]

_PATH: Final = "authManagement"
_LEAST_KEY_BYTES: Final = 32
_SENDER: Final = re.compile(r"[^\r\n<>@]*<[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+")
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

_OF_MAILS: Final = (
    "sender",
    "links",
    "verify_email",
    "register",
    "check_unique",
    "codes",
    "code_tries",
    "magic_link",
    "totp",
    "issuer",
    "encryption_keys",
    "locale",
    "texts",
    "passkeys",
    "rp_id",
    "origins",
)
_OF_USERS: Final = ("min_password", "password_check")
_MAILS: Final = "mailer=SMTP(...), sender=... and links=..."
_OF_SIGN_IN: Final = ("base_url", "pages", "link_by_email", "answer")
_OF_FACTORS: Final = ("issuer", "encryption_keys")
_OF_PASSKEYS: Final = ("rp_id", "origins")
_OF_KEYS: Final = ("key_prefix", "header", "bearer")


class _ApiKeysOption:
    """The option ``api_keys`` of `Accounts`: given as True or False, and read as `ApiKeys`."""

    @overload
    def __get__(self, accounts: None, owner: object) -> bool: ...
    @overload
    def __get__(self, accounts: Accounts, owner: object) -> ApiKeys: ...
    def __get__(self, accounts: Accounts | None, owner: object) -> bool | ApiKeys:
        return False if accounts is None else accounts.__dict__["api_keys"]

    def __set__(self, accounts: Accounts, value: bool) -> None:
        _check_choice("api_keys", value, (True, False))
        accounts.__dict__["api_keys"] = ApiKeys(accounts.store, accounts.key_prefix, is_on=value)


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """Options of accounts, for ``app.configure(Accounts(...))``.

    Configure it after the authentication service, which needs sessions, and after its users. It
    registers the service ``account/sessions``, which shows people their sessions. With a mailer, it
    registers the service ``authManagement``, which FeathersJS front ends call. With a mailer or
    ``sign_in``, it registers hooks on the users' service. With ``api_keys``, it registers the
    service ``account/api-keys``, with ``totp`` the services ``account/second-factor`` and
    ``account/recovery-codes``, and with ``passkeys`` the services ``account/passkey-options`` and
    ``account/passkeys``.

    Args:
        store: The path of a service that stores hashes of links, codes and keys. It must be closed
            to clients.
        mailer: Sends the mails: `SMTP`, `ConsoleMailer`, `MemoryMailer`, or your own. None for an
            application without mails; the options that need mails are errors then, and nobody
            can confirm an address by a mail.
        sender: The sender of the mails: ``"Example <no-reply@app.example>"``.
        links: The links in mails, with ``{token}``: ``"verify"`` and ``"reset"``, ``"link"`` with
            ``magic_link``, and ``"link_identity"`` with ``sign_in``.
        authentication: The path of the authentication service, None for the default one.
        email_field: The property of users that has the address.
        verified_field: The property that says whether the address is confirmed.
        verify_email: Whether users have to confirm their address: ``"soft"`` asks them,
            ``"required"`` also refuses sign-ins until they do, and ``"off"`` does not ask. None
            means ``"soft"`` with a mailer, and ``"off"`` without one.
        register: Whether ``{"strategy": "register", ...}`` creates a user and signs them in. Its
            response reveals whether an address is taken.
        check_unique: Whether clients may ask by the action ``checkUnique`` if an address is taken.
        codes: Whether mails have a code of six digits besides the link.
        code_tries: How many wrong codes one mail allows.
        magic_link: Whether people can sign in by a link in a mail. With True, the link works only
            in the browser that asked for it; with ``"anywhere"``, in all.
        min_password: The least number of characters of a new password.
        password_check: A function that returns why a password is not good enough, None if it is.
        locale: The language of the mails: ``"en"`` or ``"de"``.
        texts: Your own texts, by the kind of mail: functions that get the `Mail` and the locale,
            and return subject, text and HTML.
        api_keys: Whether users have API keys. The attribute ``api_keys`` is then an `ApiKeys`, with
            which your own code creates keys.
        key_prefix: How keys begin. Scanners recognize keys in public code by it.
        header: A further header that may have a key, such as ``"X-API-Key"``. None for only
            ``Authorization: ApiKey <key>``.
        bearer: Whether ``Authorization: Bearer <key>`` is accepted, too, for tools that cannot send
            anything else.
        sign_in: The providers with which people can sign in, such as ``[google(), github()]``.
        base_url: How browsers reach this server: ``"https://api.example"``, with the prefix of a
            proxy or a mount. Required with ``sign_in``.
        pages: The pages to which browsers may return after a sign-in with others, at most one for
            each origin. The first is the default. Without pages, the response is JSON.
        link_by_email: What happens if the address of a new identity belongs to a user:
            ``"verified"`` links it if the provider is trusted with addresses and has verified this
            one, and otherwise asks the user by a mail. ``"ask"`` always asks, ``"never"`` neither
            links nor asks.
        answer: How a page gets the access token: ``"fragment"`` of its URL, or ``"cookie"``. None
            means cookies if the authentication service keeps tokens out of responses, and otherwise
            the fragment.
        passkeys: Whether people can sign in with passkeys (WebAuthn). Needs the extra ``passkeys``.
        rp_id: The domain that passkeys are bound to: ``"app.example"``. Changing it ends all of
            them. None means the host of the first origin.
        origins: The origins of the pages that use passkeys: ``["https://app.example"]``. Without
            any, those of ``pages``.

    Raises:
        ValueError: An option is not valid; the message says what to do.

    Examples:
        >>> from alula.accounts import Accounts, MemoryMailer
        >>> accounts = Accounts(
        ...     store="credentials",
        ...     mailer=MemoryMailer(),
        ...     sender="Example <no-reply@app.example>",
        ...     links={
        ...         "verify": "https://app.example/verify#token={token}",
        ...         "reset": "https://app.example/reset#token={token}",
        ...     },
        ... )
    """

    store: str
    mailer: Mailer | None = field(default=None, repr=False)
    sender: str | None = None
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    authentication: str | None = None
    email_field: str = "email"
    verified_field: str = "isVerified"
    verify_email: Literal["soft", "required", "off"] | None = None
    register: bool = False
    check_unique: bool = False
    codes: bool = False
    code_tries: int = 5
    magic_link: bool | Literal["anywhere"] = False
    totp: bool = False
    issuer: str | None = None
    encryption_keys: Sequence[str] = field(default=(), repr=False)
    min_password: int = 8
    password_check: Callable[[str], str | None] | None = None
    locale: Locale = "en"
    texts: Mapping[str, Text] = field(default_factory=dict[str, Text])
    key_prefix: str = "alu"
    api_keys: _ApiKeysOption = _ApiKeysOption()
    header: str | None = None
    bearer: bool = False
    sign_in: Sequence[Provider] = ()
    base_url: str | None = None
    pages: Sequence[str] = ()
    link_by_email: Literal["verified", "ask", "never"] = "verified"
    answer: Literal["fragment", "cookie"] | None = None
    passkeys: bool = False
    rp_id: str | None = None
    origins: Sequence[str] = ()
    _outbox: Outbox = field(default_factory=Outbox, init=False, repr=False, compare=False)
    _events: Events = field(init=False, repr=False, compare=False)
    _second: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_events", Events(self._outbox))  # the dataclass is frozen
        if self.mailer is None:
            self._check_unused(_OF_MAILS, _MAILS)
        else:
            self._check_mail_options()
        if self.mailer is None and not self.sign_in:
            self._check_unused(_OF_USERS, f"{_MAILS}, or sign_in=[...]")
        else:
            _check_number("min_password", self.min_password)
        if self.sign_in:
            self._check_sign_in()
        else:
            self._check_unused(_OF_SIGN_IN, "sign_in=[...]")
        _check_choice("passkeys", self.passkeys, (True, False))
        if self.passkeys:
            self._relying_party()
        else:
            self._check_unused(_OF_PASSKEYS, "passkeys=True")
        if not self.api_keys.is_on:
            self._check_unused(_OF_KEYS, "api_keys=True")
        if self.header is not None and not _HEADER.fullmatch(self.header):
            raise ValueError(f"header is {self.header!r}; name one such as 'X-API-Key'")
        if self.header is not None and self.header.lower() == "authorization":
            raise ValueError("keys are always accepted in Authorization; name another header")
        _check_choice("bearer", self.bearer, (True, False))

    def _check_unused(self, names: tuple[str, ...], needed: str) -> None:
        """Check that options which have no effect are not set.

        Raises:
            ValueError: One is.
        """
        for option in fields(self):
            if option.name in names:
                factory, value = option.default_factory, getattr(self, option.name)
                unset = option.default if factory is MISSING else factory()
                if value not in (unset, "off"):
                    raise ValueError(f"{option.name} has no effect without {needed}; add that")

    def _check_mail_options(self) -> None:
        _check_choice("verify_email", self.verify_email, ("soft", "required", "off", None))
        _check_choice("magic_link", self.magic_link, (True, False, "anywhere"))
        _check_choice("locale", self.locale, ("en", "de"))
        if self.sender is None or not _SENDER.fullmatch(self.sender):
            raise ValueError(f"sender is {self.sender!r}; write 'Example <no-reply@app.example>'")
        _check_number("code_tries", self.code_tries)
        if unknown := set(self.texts).difference(KINDS):
            raise ValueError(
                f"texts has {', '.join(sorted(unknown))}; the kinds of mails are {', '.join(KINDS)}"
            )
        needed = {"verify", "reset"}
        if self.magic_link:
            needed.add("link")
        if self.sign_in and self.link_by_email != "never":
            needed.add("link_identity")
        if set(self.links) != needed:
            raise ValueError(
                f"links has {', '.join(sorted(self.links)) or 'nothing'}; with these options it"
                f" needs {', '.join(sorted(needed))}, and nothing else"
            )
        for name, link in self.links.items():
            _check_link(name, link)
        self._check_totp()

    def _check_sign_in(self) -> None:
        """Check the options of signing in with others."""
        _check_choice("link_by_email", self.link_by_email, ("verified", "ask", "never"))
        if self.link_by_email == "ask" and self.mailer is None:
            raise ValueError(f"link_by_email='ask' has no effect without {_MAILS}; add that")
        _check_choice("answer", self.answer, (None, "fragment", "cookie"))
        if not Pages(self.pages, check_base_url(self.base_url)) and self.answer is not None:
            raise ValueError("answer needs pages: without them, the response is JSON")
        names = [provider.name for provider in self.sign_in]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"sign_in has two providers with the name {name!r}")

    def _relying_party(self) -> RelyingParty:
        """Return for whom passkeys are.

        Raises:
            ValueError: Options do not fit together.
        """
        if self.origins or not self.sign_in:
            return relying_party_of(self.rp_id, self.origins)
        pages = Pages(self.pages, check_base_url(self.base_url))
        return relying_party_of(self.rp_id, pages.origins)

    def on(self, name: AccountEventName) -> Callable[[EventHandlerT], EventHandlerT]:
        """Return a decorator for a function that is called with each event of this name.

        The function runs after the request that caused the event, and may be asynchronous. If it
        fails, the log has the type of the error, without its text. Events are lost if the process
        crashes.

        Args:
            name: With a mailer or ``sign_in`` ``"signed_up"``, ``"verified"``,
                ``"password_changed"``, ``"address_changed"`` and ``"removed"``; with ``sign_in``
                ``"linked"`` and ``"unlinked"``; with ``api_keys`` ``"key_created"``; and with
                ``totp`` ``"factor_added"``, ``"factor_removed"`` and ``"recovery_used"``.

        Raises:
            TypeError: The decorated object is not a function.
            ValueError: There is no such event with these options.

        Examples:
            >>> from alula.accounts import AccountEvent, Accounts, MemoryMailer
            >>> accounts = Accounts(
            ...     store="credentials",
            ...     mailer=MemoryMailer(),
            ...     sender="no-reply@app.example",
            ...     links={
            ...         "verify": "https://app.example/verify#token={token}",
            ...         "reset": "https://app.example/reset#token={token}",
            ...     },
            ... )
            >>> @accounts.on("password_changed")
            ... async def tell(event: AccountEvent) -> None:
            ...     print(event.name, event.user_id)
        """
        options = {
            "a mailer": self.mailer is not None or bool(self.sign_in),
            "sign_in=[...]": bool(self.sign_in),
            "api_keys=True": self.api_keys.is_on,
            "totp=True": self.totp,
        }
        check_event(name, [option for option, is_on in options.items() if is_on])

        def add(handler: EventHandlerT) -> EventHandlerT:
            if not callable(handler):
                raise TypeError(f"accounts.on({name!r}) decorates a function, not {handler!r}")
            self._events.add(name, handler)
            return handler

        return add

    async def remove_factors(self, user_id: Id) -> bool:
        """Remove the second factor and the recovery codes of somebody who has lost them.

        Check who asks before you call it, and not by a mail: this removes the protection of the
        account.

        Args:
            user_id: The id of the user.

        Returns:
            Whether the user had a second factor.

        Raises:
            NotAuthenticated: There is no such user.
            RuntimeError: ``Accounts`` is not configured, or has no ``totp=True``.
        """
        if self._second is None:
            raise RuntimeError("remove_factors needs Accounts(totp=True, ...) that is configured")
        is_removed: bool = await self._second.remove_by_id(user_id)
        return is_removed

    async def idle(self) -> None:
        """Wait until all mails are sent and the last uses of keys are stored, for tests."""
        await self._outbox.idle()
        await self.api_keys.idle()

    def __call__(self, app: Application) -> None:
        """Register what the options ask for; ``app.configure`` calls it.

        Raises:
            ValueError: Something that it needs is missing; the message says what to do.
        """
        authentication = self._authentication_of(app)
        entities = authentication.entities
        if self.mailer is not None or self.sign_in:
            self._add_users(app, authentication)
        elif self.api_keys.is_on:
            forget_removed_users(entities.handle, entities.id_name, self.api_keys.forget)
        SessionList(authentication).offer(app, self.authentication)
        if self.api_keys.is_on:
            self._add_api_keys(app, authentication)

    def _add_api_keys(self, app: Application, authentication: Any) -> None:
        strategy = ApiKeyStrategy(self.api_keys, header=self.header, takes_bearer=self.bearer)
        # First: the strategy of access tokens would take a bearer key for a token.
        authentication.offer(STRATEGY, strategy, looks_first=self.bearer)
        service = ApiKeyService(self.api_keys, authentication, self._events)
        service.offer(app, self.authentication)

    def _add_users(self, app: Application, authentication: Any) -> None:
        """Register what changes users: what proves addresses, and who signs in with others."""
        has_mails = self.mailer is not None
        entities, local = authentication.entities, self._password_strategy(authentication)
        Params.declare("accounts")
        proofs = Proofs(self.store, codes=self.codes, tries=self.code_tries)
        messages = Messages(
            authentication,
            proofs,
            self._outbox,
            self._events,
            mailer=self.mailer,
            sender=self.sender,
            links=self.links,
            texts=self.texts,
            locale=self.locale,
            address=self.email_field,
            verified=self.verified_field,
        )
        rules = PasswordRules(self.min_password, self.password_check)
        management = AuthManagement(
            authentication,
            proofs,
            messages,
            self._outbox,
            rules,
            address=self.email_field,
            verified=self.verified_field,
            codes=self.codes,
            check_unique=self.check_unique,
            magic_link=self.magic_link,
        )
        hooks = UserHooks(
            proofs,
            rules,
            messages,
            self._events,
            address=self.email_field,
            verified=self.verified_field,
            asks_for_proof=has_mails and self.verify_email != "off",
            has_mails=has_mails,
        )
        hooks.register(entities.handle, entities.id_name, local.secret_fields)
        # Closed without mails: its actions are for links. Accounts still need it themselves.
        app.use(_PATH, management, methods=["create"] if has_mails else [])
        self._add_ways_in(app, authentication, management, messages)
        by_mail = self.verified_field if self.magic_link else None
        ways = WaysIn(authentication, verified=by_mail)
        if self.passkeys:
            self._add_passkeys(app, authentication, messages, ways)
        if self.sign_in:
            self._add_providers(app, authentication, management, messages, ways)

    def _check_totp(self) -> None:
        keys = self.encryption_keys
        _check_choice("totp", self.totp, (True, False))
        if not self.totp:
            self._check_unused(_OF_FACTORS, "totp=True")
        if self.issuer is not None and (not self.issuer or ":" in self.issuer):
            raise ValueError(f"issuer is {self.issuer!r}; write a name without a colon")
        if isinstance(keys, str) or any(len(key.encode()) < _LEAST_KEY_BYTES for key in keys):
            raise ValueError(
                "encryption_keys is a list of keys, each of at least 32 bytes; make one with:"
                " python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )

    def _authentication_of(self, app: Application) -> Any:
        """Return the authentication service, and check that it has what accounts need."""
        authentication = find_authentication(app, self.authentication)
        if authentication is None:
            raise ValueError("configure Accounts after the authentication service is registered")
        for path in (SESSION_LIST, _PATH):
            if path in app.services:
                raise ValueError(f"there is a service at {path!r} already; configure Accounts once")
        if authentication.sessions is None:
            raise ValueError(
                "Accounts needs sessions, which end when a password changes:"
                " AuthenticationService(app, sessions='sessions')"
            )
        return authentication

    def _password_strategy(self, authentication: Any) -> LocalStrategy:
        """Return the strategy that checks passwords, and check that it fits.

        Raises:
            ValueError: It does not, or there is none.
        """
        local = password_strategy(authentication)
        if local.entity_username_field != self.email_field:
            raise ValueError(
                f"Accounts has email_field={self.email_field!r}, but people sign in by"
                f" {local.entity_username_field!r}; name the same property in both"
            )
        if not local.fold_username:
            raise ValueError(
                "Accounts stores addresses without capitals, so people sign in however they type"
                f" theirs: register({local.name!r}, LocalStrategy(fold_username=True))"
            )
        return local

    def _add_ways_in(
        self, app: Application, authentication: Any, management: AuthManagement, messages: Messages
    ) -> None:
        if self.register:
            authentication.offer("register", RegisterStrategy(), parses=False, signs_in=True)
        if self.magic_link:
            strategy = LinkStrategy(
                management.redeem_link,
                partial(management.take_over, action="link"),
                is_bound=self.magic_link is True,
            )
            authentication.offer("link", strategy, parses=False, signs_in=True)
        if self.magic_link is True:
            app.service(_PATH).hooks(around={"create": [bind_browser]})
        if self.verify_email == "required":
            authentication.extensions.append(
                ProvedAddresses(authentication.entities, self.verified_field, messages.signed_up)
            )
        if self.totp:
            self._add_second_factor(app, authentication, messages)

    def _add_second_factor(self, app: Application, authentication: Any, messages: Messages) -> None:
        # Late: only this needs the extra `totp`.
        from alula.accounts._factor_services import (  # noqa: PLC0415  # as above
            RecoveryCodesService,
            SecondFactorService,
        )
        from alula.accounts._factors import Factors  # noqa: PLC0415  # as above
        from alula.accounts._second_factor import SecondFactor  # noqa: PLC0415  # as above

        factors = Factors(self.store, self.encryption_keys)
        second = SecondFactor(
            authentication, factors, messages, self._events, address=self.email_field
        )
        second.offer()
        issuer = self.issuer or urlsplit(self.links["verify"]).hostname or ""
        for service in (
            SecondFactorService(authentication, second, issuer=issuer, address=self.email_field),
            RecoveryCodesService(authentication, second),
        ):
            service.offer(app, self.authentication)
        object.__setattr__(self, "_second", second)  # as above

    def _add_passkeys(
        self, app: Application, authentication: Any, messages: Messages, ways: WaysIn
    ) -> None:
        """Register what makes passkeys and signs in with them.

        Raises:
            ImportError: The extra ``passkeys`` is not installed.
        """
        # Here, because they need the extra.
        from alula.accounts._passkey_services import (  # noqa: PLC0415  # as above
            PasskeyOptionsService,
            PasskeysService,
        )
        from alula.accounts._passkey_strategy import PasskeyStrategy  # noqa: PLC0415  # as above
        from alula.accounts._webauthn import WebAuthn  # noqa: PLC0415  # as above

        passkeys, challenges = Passkeys(self.store), Challenges()
        webauthn = WebAuthn(self._relying_party())
        use_ticket = None
        if self._second is not None:
            self._second.offer_also("passkey", passkeys.number_of)
            use_ticket = self._second.use_ticket
        strategy = PasskeyStrategy(passkeys, challenges, webauthn, messages, use_ticket)
        authentication.offer("passkey", strategy, parses=False, signs_in=True)
        for service in (
            PasskeyOptionsService(
                authentication, passkeys, challenges, webauthn, address=self.email_field
            ),
            PasskeysService(authentication, passkeys, challenges, webauthn, messages, ways),
        ):
            service.offer(app, self.authentication)

    def _add_providers(
        self,
        app: Application,
        authentication: Any,
        management: AuthManagement,
        messages: Messages,
        ways: WaysIn,
    ) -> None:
        """Register what signs in with others.

        Raises:
            ImportError: The extra ``oauth`` is not installed.
            ValueError: A setting is missing, or options do not fit together.
        """
        # Here, because they need the extra.
        from alula.accounts._oauth._identities import Identities  # noqa: PLC0415  # as above
        from alula.accounts._oauth._identity_list import IdentityList  # noqa: PLC0415  # as above
        from alula.accounts._oauth._matching import Matching  # noqa: PLC0415  # as above
        from alula.accounts._oauth._services import SignInWithOthers  # noqa: PLC0415  # as above

        for provider in self.sign_in:
            if provider.name in {*authentication.strategies, *authentication.parse_strategies}:
                raise ValueError(
                    f"sign_in has a provider with the name {provider.name!r}, which is that of a"
                    " strategy of the authentication service; give it another name"
                )
            provider.configure(app)
        identities = Identities(self.store)
        matching = Matching(
            authentication,
            identities,
            management,
            messages,
            address=self.email_field,
            verified=self.verified_field,
            link_by_email=self.link_by_email,
            asks_for_proof=self.verify_email in {None, "soft"},  # "required" asks at the sign-in
        )
        if self.mailer is not None and self.link_by_email != "never":
            management.offer_link_identity(matching.link_by_mail)
        SignInWithOthers(
            authentication,
            self.sign_in,
            check_base_url(self.base_url),
            Pages(self.pages, check_base_url(self.base_url)),
            identities,
            matching,
            Replies(authentication, self._answer_for(authentication.token_cookies)),
        ).offer(app)
        listing = IdentityList(authentication, identities, self._events, ways)
        listing.offer(app, self.authentication)

    def _answer_for(self, cookies: Any) -> Literal["fragment", "cookie"]:
        """Return how pages get the token.

        Raises:
            ValueError: The answer does not fit to the cookies of the authentication service.
        """
        is_hidden = cookies is not None and not cookies.options.tokens_in_body
        answer = self.answer or ("cookie" if is_hidden else "fragment")
        if answer == "cookie" and cookies is None:
            raise ValueError(
                "answer='cookie' needs an authentication service with cookies:"
                " AuthenticationService(app, cookie=TokenCookie())"
            )
        if answer == "fragment" and is_hidden:
            raise ValueError(
                "answer='fragment' shows the token to scripts, which tokens_in_body=False of"
                " TokenCookie prevents; leave one of them out"
            )
        return answer


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices or (isinstance(value, int) and not isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}; write {' or '.join(map(repr, choices))}")


def _check_number(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least 1")


def _check_link(name: str, link: str) -> None:
    """Check a link of the owner.

    Raises:
        ValueError: It is not one, or sends the token unencrypted.
    """
    parts = urlsplit(link)
    host = parts.hostname or ""
    if link.count("{token}") != 1 or link.count("{") != 1 or link.count("}") != 1 or not host:
        raise ValueError(
            f"links[{name!r}] is {link!r}; write a whole URL with {{token}} in it once, such as"
            " 'https://app.example/reset#token={token}'"
        )
    if not is_secure(parts):
        raise ValueError(f"links[{name!r}] is {link!r}; it has to be an https link")
