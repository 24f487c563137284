"""The application, ready for any ASGI server: ``uvicorn examples.chat.app:app``."""

from pathlib import Path
from typing import Any

from examples.chat.accounts import add_accounts, guard
from examples.chat.hooks import add_users, check_edit, check_message, log_call
from examples.chat.live import add_real_time
from examples.chat.services import services_of

from alula import App
from alula.express import (
    ExpressApplication,
    error_handler,
    express,
    json,
    not_found,
    rest,
    serve_static,
    urlencoded,
)
from alula.openapi import openapi

PUBLIC = Path(__file__).parent / "public"
RETURN_MESSAGES = ("find", "get", "create", "patch", "remove", "react")


def make_app(database: Any = None, secret: str | None = None) -> ExpressApplication:
    """Return a chat.

    Args:
        database: A database of PyMongo's asynchronous client. None keeps the chat in memory, so it
            starts empty and loses everything at the end.
        secret: The key of the access tokens; None as in `add_accounts`.
    """
    users, messages = services_of(database)
    app = express(App())
    app.use(json(limit="100kb"), urlencoded(limit="100kb"))
    app.configure(rest())

    add_accounts(app, users, secret)
    methods = ["find", "get", "create", "patch", "remove", "react", "typing"]
    app.use("messages", messages, methods=methods, events=["typing"])
    add_real_time(app)

    app.hooks(around=[log_call])
    guard(app.service("messages"))
    app.service("messages").hooks(
        before={"create": [check_message], "patch": [check_edit]},
        after={method: [add_users] for method in RETURN_MESSAGES},
    )

    app.configure(openapi(title="Chat"))
    app.use(serve_static(PUBLIC))
    app.use(not_found(verbose=True), error_handler())
    return app


app = make_app()
