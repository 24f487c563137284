"""The texts of the mails, in English and German."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Final, Literal, NamedTuple, TypeAlias

from alula.accounts._mail import Mail

__all__ = ["KINDS", "Locale", "Text", "built_in_text"]

Locale: TypeAlias = Literal["en", "de"]

Text: TypeAlias = Callable[[Mail, str], tuple[str, str, str]]
"""A function of a mail and the locale that returns its subject, its text, and its HTML."""


class _Words(NamedTuple):
    """The words of one kind of mail.

    Attributes:
        subject: The subject.
        before: What comes before the link.
        after: What comes after the link and the code.
    """

    subject: str
    before: str
    after: str


_EN: Final[Mapping[str, _Words]] = {
    "verify": _Words(
        "Confirm your e-mail address",
        "please confirm that this address is yours:",
        "If you have not signed up, ignore this mail.",
    ),
    "reset": _Words(
        "Choose a new password",
        "somebody asked for a new password for your account. If it was you, choose one here:",
        "If it was not you, ignore this mail; your password stays as it is.",
    ),
    "change": _Words(
        "Confirm your new e-mail address",
        "please confirm that this is the new address of your account:",
        "If you did not ask for this, ignore this mail.",
    ),
    "undo": _Words(
        "Your e-mail address is about to change",
        "somebody who knows your password asked to change the address of your account. If it was"
        " not you, restore your address here:",
        "If it was you, ignore this mail.",
    ),
    "restored": _Words(
        "Your e-mail address is back",
        "your account has this address again, and all devices are signed out. Your password does"
        " not count any more, since somebody else may know it. Choose a new one here:",
        "",
    ),
    "password_changed": _Words(
        "Your password was changed",
        "the password of your account was changed.",
        'If it was not you, use "Forgot your password?" at once.',
    ),
    "linked": _Words(
        "There is a new way to sign in to your account",
        "your account at another service can now be used to sign in to your account here.",
        "If it was not you, sign in, remove it, and choose a new password.",
    ),
    "taken": _Words(
        "You already have an account",
        "somebody tried to use this address for a new account, but you already have one.",
        'If it was you, sign in, or use "Forgot your password?".'
        " If it was not you, ignore this mail.",
    ),
    "link": _Words(
        "Your link to sign in",
        "sign in here, in the browser in which you asked for this link:",
        "If you did not ask for it, ignore this mail.",
    ),
    "link_identity": _Words(
        "Confirm your new way to sign in",
        "you tried to sign in to your account here with your account at another service. To sign in"
        " like this from now on, open this link in the browser in which you tried:",
        "If it was not you, ignore this mail. Somebody else may have tried to get into your"
        " account.",
    ),
    "factor_added": _Words(
        "Signing in now requires a code",
        "your account now has a second factor: signing in requires a code from your app.",
        "If it was not you, somebody was signed in as you. Change your password, and ask us for"
        " help.",
    ),
    "factor_removed": _Words(
        "Signing in no longer requires a code",
        "the second factor of your account was removed: your password is now enough to sign in.",
        "If it was not you, change your password at once.",
    ),
    "recovery_used": _Words(
        "A recovery code was used",
        "somebody has signed in to your account with one of your recovery codes.",
        "If it was not you, change your password at once, and make new recovery codes.",
    ),
    "recovery_renewed": _Words(
        "You have new recovery codes",
        "new recovery codes were made for your account. The old ones no longer work.",
        "If it was not you, change your password at once, and make new recovery codes.",
    ),
    "factor_guessed": _Words(
        "Somebody is trying to guess your codes",
        "there were too many wrong codes for your account, from somebody who knows your password or"
        " reads your mails. Codes from your app will not work for some time.",
        "If it was not you, change your password at once.",
    ),
    "passkey_added": _Words(
        "Your account has a new passkey",
        "a passkey was added to your account: a device can now sign in without your password.",
        "If it was not you, sign in, remove it, and choose a new password.",
    ),
    "passkey_removed": _Words(
        "A passkey was removed from your account",
        "a passkey of your account was removed, and can no longer be used to sign in.",
        "If it was not you, change your password at once, and look at your passkeys.",
    ),
    "passkey_copied": _Words(
        "One of your passkeys may have been copied",
        "somebody tried to sign in with one of your passkeys, but it seems to be a copy, so we have"
        " refused it.",
        "Remove this passkey from your account. If you lost the device, change your password, too.",
    ),
}

_DE: Final[Mapping[str, _Words]] = {
    "verify": _Words(
        "Bitte bestätigen Sie Ihre E-Mail-Adresse",
        "bitte bestätigen Sie, dass diese Adresse Ihnen gehört:",
        "Wenn Sie sich nicht registriert haben, ignorieren Sie diese Mail.",
    ),
    "reset": _Words(
        "Neues Passwort wählen",
        "jemand möchte ein neues Passwort für Ihr Konto. Wenn Sie das waren, wählen Sie es hier:",
        "Wenn Sie es nicht waren, brauchen Sie nichts zu tun; Ihr Passwort bleibt, wie es ist.",
    ),
    "change": _Words(
        "Bitte bestätigen Sie Ihre neue E-Mail-Adresse",
        "bitte bestätigen Sie, dass dies die neue Adresse Ihres Kontos ist:",
        "Wenn Sie das nicht wollten, brauchen Sie nichts zu tun.",
    ),
    "undo": _Words(
        "Ihre E-Mail-Adresse wird geändert",
        "jemand, der Ihr Passwort kennt, möchte die Adresse Ihres Kontos ändern. Wenn Sie das nicht"
        " waren, holen Sie Ihre Adresse hier zurück:",
        "Wenn Sie es waren, brauchen Sie nichts zu tun.",
    ),
    "restored": _Words(
        "Ihre E-Mail-Adresse ist wieder da",
        "Ihr Konto hat wieder diese Adresse, und alle Geräte sind abgemeldet. Ihr Passwort gilt"
        " nicht mehr, weil es vielleicht jemand kennt. Wählen Sie hier ein neues:",
        "",
    ),
    "password_changed": _Words(
        "Ihr Passwort wurde geändert",
        "das Passwort Ihres Kontos wurde geändert.",
        "Wenn Sie es nicht waren, wählen Sie sofort „Passwort vergessen“.",
    ),
    "linked": _Words(
        "Für Ihr Konto gibt es eine neue Anmeldung",
        "Sie können sich jetzt auch mit Ihrem Konto bei einem anderen Dienst anmelden.",
        "Wenn Sie es nicht waren, melden Sie sich an, entfernen Sie diese Anmeldung, und wählen"
        " Sie ein neues Passwort.",
    ),
    "taken": _Words(
        "Sie haben schon ein Konto",
        "jemand wollte diese Adresse für ein Konto verwenden, aber Sie haben schon eines.",
        "Wenn Sie es waren, melden Sie sich an, oder wählen Sie „Passwort vergessen“."
        " Sonst brauchen Sie nichts zu tun.",
    ),
    "link": _Words(
        "Ihr Link zum Anmelden",
        "melden Sie sich hier an, in dem Browser, in dem Sie diesen Link angefordert haben:",
        "Wenn Sie ihn nicht angefordert haben, brauchen Sie nichts zu tun.",
    ),
    "link_identity": _Words(
        "Bitte bestätigen Sie Ihre neue Anmeldung",
        "Sie wollten sich mit Ihrem Konto bei einem anderen Dienst hier anmelden. Wenn Sie sich in"
        " Zukunft so anmelden möchten, öffnen Sie diesen Link in demselben Browser:",
        "Wenn Sie es nicht waren, brauchen Sie nichts zu tun. Vielleicht wollte jemand anderes in"
        " Ihr Konto gelangen.",
    ),
    "factor_added": _Words(
        "Zum Anmelden gehört jetzt ein Code",
        "Ihr Konto hat jetzt einen zweiten Faktor: Zum Anmelden gehört ein Code aus Ihrer App.",
        "Wenn Sie es nicht waren, war jemand mit Ihrem Konto angemeldet. Ändern Sie Ihr Passwort,"
        " und bitten Sie uns um Hilfe.",
    ),
    "factor_removed": _Words(
        "Zum Anmelden gehört kein Code mehr",
        "der zweite Faktor Ihres Kontos wurde entfernt: Zum Anmelden genügt Ihr Passwort.",
        "Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort.",
    ),
    "recovery_used": _Words(
        "Ein Wiederherstellungscode wurde benutzt",
        "jemand hat sich mit einem Ihrer Wiederherstellungscodes angemeldet.",
        "Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und lassen Sie sich neue"
        " Wiederherstellungscodes geben.",
    ),
    "recovery_renewed": _Words(
        "Sie haben neue Wiederherstellungscodes",
        "für Ihr Konto gibt es neue Wiederherstellungscodes. Die alten gelten nicht mehr.",
        "Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und lassen Sie sich neue"
        " Wiederherstellungscodes geben.",
    ),
    "factor_guessed": _Words(
        "Jemand versucht, Ihre Codes zu erraten",
        "für Ihr Konto gab es zu viele falsche Codes, von jemandem, der Ihr Passwort kennt oder"
        " Ihre E-Mails liest. Codes Ihrer App gelten einige Zeit nicht.",
        "Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort.",
    ),
    "passkey_added": _Words(
        "Ihr Konto hat einen neuen Passkey",
        "zu Ihrem Konto gehört ein neuer Passkey: Ein Gerät kann sich jetzt ohne Ihr Passwort"
        " anmelden.",
        "Wenn Sie es nicht waren, melden Sie sich an, entfernen Sie den Passkey, und wählen Sie ein"
        " neues Passwort.",
    ),
    "passkey_removed": _Words(
        "Ein Passkey Ihres Kontos wurde entfernt",
        "ein Passkey Ihres Kontos wurde entfernt. Mit ihm kann sich niemand mehr anmelden.",
        "Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und prüfen Sie Ihre Passkeys.",
    ),
    "passkey_copied": _Words(
        "Einer Ihrer Passkeys ist vielleicht kopiert worden",
        "jemand wollte sich mit einem Ihrer Passkeys anmelden, der eine Kopie zu sein scheint. Die"
        " Anmeldung wurde abgelehnt.",
        "Entfernen Sie diesen Passkey aus Ihrem Konto. Wenn Sie das Gerät verloren haben, wählen"
        " Sie auch ein neues Passwort.",
    ),
}

KINDS: Final = tuple(_EN)
"""All kinds of mails."""

_WORDS: Final[Mapping[str, Mapping[str, _Words]]] = {"en": _EN, "de": _DE}
_GREETING: Final = {"en": "Hello,", "de": "Guten Tag,"}
_CODE: Final = {"en": "Or type this code:", "de": "Oder geben Sie diesen Code ein:"}
_CODES_LEFT: Final = {
    "en": "Recovery codes left: {}.",
    "de": "Wiederherstellungscodes, die noch gelten: {}.",
}
_UNTIL: Final = {"en": "The link is valid until {} UTC.", "de": "Der Link gilt bis {} UTC."}


def built_in_text(mail: Mail, locale: str) -> tuple[str, str, str]:
    """Return the subject, the text and the HTML of a mail.

    Args:
        mail: The mail, without any of the three.
        locale: ``"en"`` or ``"de"``.
    """
    words = _WORDS[locale][mail.kind]
    opening = (_GREETING[locale], words.before)
    parts: list[tuple[str, str]] = [(text, escape(text)) for text in opening]
    if mail.link is not None:
        link = escape(mail.link)
        parts.append((mail.link, f'<a href="{link}">{link}</a>'))
    if mail.code is not None:
        before = _CODE[locale]
        parts.append((f"{before} {mail.code}", f"{before} <b>{mail.code}</b>"))
    if mail.expires is not None:
        until = _UNTIL[locale].format(mail.expires.strftime("%Y-%m-%d %H:%M"))
        parts.append((until, escape(until)))
    if mail.codes_left is not None:
        left = _CODES_LEFT[locale].format(mail.codes_left)
        parts.append((left, escape(left)))
    if words.after:
        parts.append((words.after, escape(words.after)))
    text = "\n\n".join(plain for plain, _ in parts) + "\n"
    html = "".join(f"<p>{markup}</p>\n" for _, markup in parts)
    return words.subject, text, html
