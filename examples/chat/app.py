"""The application, ready for any ASGI server: ``uvicorn examples.chat.app:app``."""

from pathlib import Path

from examples.chat.hooks import add_users, check_edit, check_message, check_user, log_call
from examples.chat.services import Messages

from alula import App
from alula.adapters.memory import MemoryService
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

PUBLIC = Path(__file__).parent / "public"
PAGES = {"default": 50, "max": 200}


def make_app() -> ExpressApplication:
    """Return a new chat with an empty memory."""
    app = express(App())
    app.use(json(limit="100kb"), urlencoded(limit="100kb"))
    app.configure(rest())

    app.use("users", MemoryService(start_id=1, paginate=PAGES), methods=["find", "get", "create"])
    app.use(
        "messages",
        Messages(start_id=1, paginate=PAGES),
        methods=["find", "get", "create", "patch", "remove", "react"],
    )

    app.hooks(around=[log_call])
    app.service("users").hooks(before={"create": [check_user]})
    app.service("messages").hooks(
        before={"create": [check_message], "patch": [check_edit]},
        after=[add_users],
    )

    app.use(serve_static(PUBLIC))
    app.use(not_found(verbose=True), error_handler())
    return app


app = make_app()
