"""Options that cannot work end the start, with a text that says what to do."""

from __future__ import annotations

import pytest
from tests.accounts.building import LINKS, SECRET, make_world, started

from alula import App
from alula.accounts import Accounts, ConsoleMailer, MemoryMailer
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, LocalStrategy


def options(**changes):
    return {
        "store": "credentials",
        "mailer": MemoryMailer(),
        "sender": "Example <no-reply@app.example>",
        "links": LINKS,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"verify_email": "hard"}, "verify_email is 'hard'; write 'soft' or"),
        ({"magic_link": "here"}, "magic_link is 'here'"),
        ({"magic_link": 1}, "magic_link is 1"),
        ({"locale": "fr"}, "locale is 'fr'"),
        ({"sender": "Example\nBcc: x"}, "sender is"),
        ({"sender": "Example"}, "sender is"),
        ({"min_password": 0}, "min_password is 0"),
        ({"code_tries": "5"}, "code_tries is '5'"),
        ({"texts": {"welcome": print}}, "texts has welcome; the kinds of mails are verify"),
        ({"links": {}}, "links has nothing; with these options it needs reset, verify"),
        ({"links": {**LINKS, "link": LINKS["reset"]}}, "and nothing else"),
        ({"magic_link": True}, "needs link, reset, verify"),
        ({"links": {**LINKS, "reset": "https://app.example/reset"}}, "token"),
        ({"links": {**LINKS, "reset": "/reset#token={token}"}}, "a whole URL"),
        ({"links": {**LINKS, "reset": "https://app.example/{page}#{token}"}}, "token"),
        ({"links": {**LINKS, "reset": "http://app.example/#{token}"}}, "https"),
        ({"links": {**LINKS, "reset": "ftp://localhost/#{token}"}}, "https"),
    ],
)
def test_wrong_options(changes, text):
    with pytest.raises(ValueError, match=text):
        Accounts(**options(**changes))


def test_links_to_this_machine_and_plain_senders():
    links = {**LINKS, "reset": "http://127.0.0.1:3000/#{token}"}
    assert Accounts(**options(links=links, sender="no-reply@app.example"))


BY_NAME = LocalStrategy(username_field="name", fold_username=True)


def app_with(debug=False, strategy=None, **authentication):
    app = App(debug=debug)
    app.use("users", MemoryService())
    app.use("sessions", MemoryService(), methods=[])
    settings = {"secret": SECRET, "sessions": "sessions", **authentication}
    service = AuthenticationService(app, **settings)
    service.register("local", strategy or LocalStrategy(fold_username=True))
    app.use("authentication", service)
    return app


@pytest.mark.parametrize(
    ("app", "text"),
    [
        (App(), "after the authentication service"),
        (app_with(sessions=None), "needs sessions"),
        (app_with(strategy=LocalStrategy()), "fold_username=True"),
        (app_with(strategy=BY_NAME), "people sign in by 'name'"),
    ],
)
def test_what_it_needs(app, text):
    with pytest.raises(ValueError, match=text):
        app.configure(Accounts(**options()))


def test_it_needs_a_strategy_for_passwords():
    app = App()
    app.use("users", MemoryService())
    service = AuthenticationService(app, secret=SECRET, strategies=["jwt"], sessions="sessions")
    app.use("authentication", service)
    with pytest.raises(ValueError, match="LocalStrategy"):
        app.configure(Accounts(**options()))


async def test_the_console_is_for_debug_mode():
    """A program that only looks at an application, such as a migration, runs outside of it."""

    def app_in(debug):
        app = app_with(debug=debug).use("credentials", MemoryService(), methods=[])
        return app.configure(Accounts(**options(mailer=ConsoleMailer())))

    with pytest.raises(ValueError, match="debug mode"):
        await app_in(debug=False).setup()
    app = app_in(debug=True)
    await app.setup()
    await app.teardown()


def test_once():
    world = make_world()
    with pytest.raises(ValueError, match="once"):
        world.app.configure(Accounts(**options()))


async def test_the_store_is_closed_to_clients():
    open_store = app_with()
    open_store.use("credentials", MemoryService())
    open_store.configure(Accounts(**options()))
    with pytest.raises(ValueError, match="close it"):
        await open_store.setup()


async def test_another_authentication_service_is_named():
    app = app_with()
    app.use("credentials", MemoryService(), methods=[])
    app.configure(Accounts(**options(authentication="authentication")))
    await app.setup()


async def test_users_of_any_method():
    world = await started(authentication={"entity_id": "id"})
    assert await world.sign_up()
