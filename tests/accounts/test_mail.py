"""Mails: their texts, the mailers, and the queue."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest
from tests.accounts.building import started

from alula import App
from alula.accounts import SMTP, ConsoleMailer, Mail, MemoryMailer, _mail, _smtp
from alula.accounts._texts import KINDS, built_in_text

USER = {"email": "ada@example.com"}
SECRET = "tOkEn"
MAIL = Mail(
    kind="reset",
    to="ada@b\u00fccher.example",
    sender="Example <no-reply@app.example>",
    subject="Gr\u00fc\u00dfe",
    text="Hello",
    html="<p>Hello</p>",
    link=f"https://app.example/reset?a=1&b=2#token={SECRET}",
    code="123456",
    expires=datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
)


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", ["en", "de"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_link_code_and_end(kind, locale):
    subject, text, html = built_in_text(replace(MAIL, kind=kind), locale)
    assert subject
    assert "\n" not in subject
    for part in (MAIL.link, MAIL.code, "2030-01-02 03:04"):
        assert part in text
    assert 'href="https://app.example/reset?a=1&amp;b=2#token=' in html
    assert "123456" in html
    notice = built_in_text(replace(MAIL, kind=kind, link=None, code=None, expires=None), locale)
    assert "https:" not in notice[1]


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en", "If you have not signed up, ignore this mail."),
        ("de", "Wenn Sie sich nicht registriert haben, ignorieren Sie diese Mail."),
    ],
)
def test_who_has_not_signed_up_ignores_the_mail(locale, words):
    """The link would confirm the account of a stranger."""
    _, text, html = built_in_text(replace(MAIL, kind="verify"), locale)
    assert words in text
    assert words in html


async def test_own_texts_replace_the_built_in_ones():
    world = await started(texts={"verify": lambda mail, locale: (locale, mail.link, "")})
    await world.sign_up()
    (mail,) = await world.mails()
    assert (mail.subject, mail.text) == ("en", mail.link)


async def test_german():
    world = await started(locale="de")
    await world.sign_up()
    (mail,) = await world.mails()
    assert mail.subject == "Bitte best\u00e4tigen Sie Ihre E-Mail-Adresse"


def test_no_secret_is_shown():
    for shown in (repr(MAIL), repr(SMTP("mail.example", username="me", password=SECRET))):
        assert SECRET not in shown
        assert "ada@" not in shown


# -- mailers ---------------------------------------------------------------------------------------


async def test_the_console_gets_the_text():
    written = []
    await ConsoleMailer(written.append).send(MAIL)
    assert written == ["To: ada@b\u00fccher.example\nSubject: Gr\u00fc\u00dfe\n\nHello"]


class Server:
    """Stands in for the client of `smtplib`, and notes what it does."""

    def __init__(self, host, port, **options):
        self.steps = [(type(self).__name__, host, port, options.pop("timeout"))]
        self.context = options.get("context")
        Server.last = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.steps.append("closed")

    def starttls(self, context):
        self.context = context
        self.steps.append("starttls")

    def login(self, username, password):
        self.steps.append((username, password))

    def send_message(self, message):
        self.message = message_from_bytes(message.as_bytes(policy=policy.SMTP))


class SecureServer(Server):
    pass


@pytest.fixture
def _server(monkeypatch):
    monkeypatch.setattr(_smtp.smtplib, "SMTP", Server)
    monkeypatch.setattr(_smtp.smtplib, "SMTP_SSL", SecureServer)


@pytest.mark.usefixtures("_server")
async def test_smtp_encrypts_checks_the_certificate_and_signs_in():
    await SMTP("mail.example", username="me", password="secret").send(MAIL)
    sent = Server.last
    assert sent.steps == [
        ("Server", "mail.example", 587, 20),
        "starttls",
        ("me", "secret"),
        "closed",
    ]
    assert sent.context.verify_mode is ssl.CERT_REQUIRED
    assert sent.context.check_hostname
    assert sent.message["To"] == "ada@xn--bcher-kva.example"
    assert sent.message["From"] == MAIL.sender
    assert sent.message["Message-ID"].endswith("@app.example>")
    assert [part.get_content_type() for part in sent.message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]


@pytest.mark.usefixtures("_server")
async def test_smtp_by_tls_and_on_this_machine():
    await SMTP("mail.example", 465, username="me", security="tls").send(MAIL)
    assert Server.last.steps[0][:3] == ("SecureServer", "mail.example", 465)
    assert Server.last.context.verify_mode is ssl.CERT_REQUIRED
    assert Server.last.steps[1:] == [("me", ""), "closed"]
    await SMTP("localhost", 25, security="none").send(MAIL)
    assert Server.last.steps == [("Server", "localhost", 25, 20), "closed"]


@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize(
    "change", [{"subject": "a\nBcc: x@y.z"}, {"sender": "a@b.c\r\nBcc: x@y.z"}]
)
async def test_smtp_refuses_line_breaks_in_headers(change):
    with pytest.raises(ValueError, match=r"linefeed|line"):
        await SMTP("mail.example").send(replace(MAIL, **change))


def test_smtp_from_settings():
    app = App()
    with pytest.raises(ValueError, match="smtp_host"):
        SMTP.from_settings(app)
    app.set("smtp_host", "mail.example").set("smtp_port", "25a")
    with pytest.raises(ValueError, match="smtp_port"):
        SMTP.from_settings(app)
    app.set("smtp_port", "2525")
    assert repr(SMTP.from_settings(app)) == "SMTP('mail.example', 2525, ...)"
    with pytest.raises(ValueError, match="in the clear"):
        SMTP("mail.example", security="none")
    with pytest.raises(ValueError, match="security"):
        SMTP("mail.example", security="ssl")


# -- sending ---------------------------------------------------------------------------------------


class Down:
    """A mailer whose server is down for some tries."""

    def __init__(self, failures=99):
        self.failures = failures
        self.tries = 0

    async def send(self, message):
        self.tries += 1
        if self.tries <= self.failures:
            raise smtplib.SMTPServerDisconnected(f"no {message.to} {message.link}")


async def test_three_tries_and_then_a_line_without_address_and_link(caplog):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    mailer = Down()
    await _mail.send_patiently(mailer, MAIL, 7, sleep)
    assert (mailer.tries, waits) == (3, [1, 10])
    (line,) = caplog.messages
    assert "'reset' to user 7 was not sent: SMTPServerDisconnected at " in line
    assert SECRET not in caplog.text
    assert "ada@" not in caplog.text
    caplog.clear()
    await _mail.send_patiently(Down(failures=1), MAIL, 7, sleep)
    assert caplog.messages == []


async def test_a_server_that_is_down_fails_no_request(monkeypatch, caplog):
    monkeypatch.setattr(_mail, "_WAITS_SECONDS", (0, 0))
    world = await started(mailer=Down())
    await world.sign_up()
    assert await world.manage("sendResetPwd", USER) == USER
    await world.accounts.idle()
    assert len(caplog.messages) == 2


async def test_a_job_that_fails_does_not_end_the_others(caplog):
    def text(mail, locale):
        raise ValueError(mail.to)

    world = await started(texts={"verify": text})
    await world.sign_up()
    await world.manage("sendResetPwd", USER)
    assert [mail.kind for mail in await world.mails()] == ["reset"]
    (line,) = caplog.messages
    assert line.startswith("a job of accounts failed: ValueError at ")


async def test_the_end_waits_for_mails_and_gives_up_the_rest(caplog):
    outbox, forever, done = _mail.Outbox(), asyncio.Event(), []

    async def job():
        done.append(1)

    outbox.put(job)
    await outbox.close(5)
    assert done == [1]
    for _ in range(6):
        outbox.put(forever.wait)
    await outbox.close(0.01)
    assert caplog.messages == ["6 mails were not sent before the application ended"]
    await outbox.idle()


async def test_mails_are_sent_outside_the_context_of_the_request():
    """A transaction of the request ends before the mail is sent."""
    from contextvars import ContextVar

    request, seen = ContextVar("request", default="none"), []
    outbox = _mail.Outbox()

    async def job():
        seen.append(request.get())

    request.set("a transaction")
    outbox.put(job)
    await outbox.idle()
    assert seen == ["none"]


async def test_links_come_from_the_settings_and_not_from_the_host(caplog):
    caplog.set_level(logging.DEBUG)
    world = await started()
    await world.sign_up()
    await world.manage(
        "sendResetPwd",
        USER,
        by={"headers": {"host": "evil.example", "x-forwarded-host": "evil.example"}},
        notifierOptions={"url": "https://evil.example"},
    )
    mails = await world.mails()
    assert [mail.link.partition("#")[0] for mail in mails] == [
        "https://app.example/verify",
        "https://app.example/reset",
    ]
    for mail in mails:
        assert mail.link.partition("=")[2] not in caplog.text
    await world.app.teardown()
    assert isinstance(world.mailer, MemoryMailer)
