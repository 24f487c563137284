"""The application, ready for any ASGI server: ``make_app("postgresql://...")``."""

from examples.conduit import tables
from examples.conduit.articles import add_articles
from examples.conduit.errors import Errors, send_error
from examples.conduit.users import add_users

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.authentication import Passwords
from alula.express import ExpressApplication, cors, error_handler, express, json, not_found, rest
from alula.openapi import openapi


def make_app(
    url: str, secret: str | None = None, passwords: Passwords | None = None
) -> ExpressApplication:
    """Return the back end.

    Args:
        url: The database: ``sqlite:///conduit.sqlite`` or ``postgresql://...``. Missing tables are
            created.
        secret: The key of the access tokens, at least 32 bytes. None takes ``ALULA_SECRET``.
        passwords: How passwords are hashed; None for Argon2id. Tests take a cheap hash.
    """
    app = express(App())
    app.use(cors(), json(limit="200kb"))
    app.configure(rest())

    database = Database(url)
    add_tables(app, database)
    add_users(app, secret, passwords)
    add_articles(app, database)

    app.configure(openapi(title="Conduit", error=Errors))
    app.use(not_found(), send_error, error_handler())
    return app


def add_tables(app: ExpressApplication, database: Database) -> None:
    """Register the services of the tables, which are closed to clients."""
    pages = {"default": 20, "max": 100}
    options = {
        "articles": {"paginate": pages, "update_operators": ["$inc"]},
        "tags": {"multi": True},
        "follows": {"multi": True},
        "favorites": {"multi": True},
    }
    for name, table in tables.metadata.tables.items():
        app.use(name, SQLService(table, database, **options.get(name, {})), methods=[])

    async def create_tables(_: object, next: object) -> None:
        await database.create()
        await next()

    app.hooks(setup=[create_tables])
