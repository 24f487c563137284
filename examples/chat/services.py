"""The services of the chat, on a database of MongoDB or in memory."""

from typing import Any

from examples.chat.accounts import NAME_KEY

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest

EMOJI = ("👍", "❤️", "😂", "🎉")
PAGES = {"default": 50, "max": 200}


class Messages:
    """The custom methods and the welcome message, for any store."""

    app: App

    async def setup(self, app: App, path: str) -> None:
        """Keep the application, and write a welcome message into an empty chat."""
        self.app = app
        if (await app.service("users").find(query={"$limit": 0}))["total"]:
            return
        guide = await app.service("users").create({"name": "Alula"})
        hello = "Welcome! Open this page in a second tab and talk to yourself."
        await app.service(path).create({"text": hello, "userId": guide["_id"]})

    async def react(self, data: Any, _: Params) -> Any:
        """Add one reaction to a message: ``{"id": "...", "emoji": "🎉"}``."""
        emoji = data.get("emoji") if isinstance(data, dict) else None
        if emoji not in EMOJI:
            raise BadRequest(f"emoji must be one of {' '.join(EMOJI)}")
        if data.get("id") is None:
            raise BadRequest("id must name a message")
        return await self.count(data["id"], emoji)

    async def typing(self, _: Any, params: Params) -> None:
        """Tell everyone that the caller is typing."""
        self.app.service("messages").emit("typing", {"name": params.user["name"]})

    async def count(self, id: Any, emoji: str) -> Any:
        """Count a reaction, and return the message."""
        raise NotImplementedError


class MessagesInMemory(Messages, MemoryService):
    """Messages in memory, lost when the process ends."""

    async def count(self, id: Any, emoji: str) -> Any:
        # Atomic: reading memory never gives control back to the event loop.
        message = await self.get(id)
        reactions = {**message["reactions"], emoji: message["reactions"].get(emoji, 0) + 1}
        return await self.app.service("messages").patch(id, {"reactions": reactions})


def services_of(database: Any) -> tuple[Any, Any]:
    """Return the services for users and messages.

    Args:
        database: An asynchronous database of PyMongo, None for services in memory.
    """
    if database is None:
        options = {"id": "_id", "start_id": 1, "paginate": PAGES}
        return MemoryService(unique=[NAME_KEY], **options), MessagesInMemory(**options)

    from alula.adapters.mongodb import MongoDBService  # noqa: PLC0415  # memory needs no driver

    class MessagesInMongoDB(Messages, MongoDBService):
        """Messages in a collection."""

        async def count(self, id: Any, emoji: str) -> Any:
            one_more = {
                "$inc": {f"reactions.{emoji}": 1}
            }  # the database counts, so concurrent reactions all count
            return await self.app.service("messages").patch(id, one_more)

    async def users() -> Any:
        # Two users may register the same name at once; the unique index accepts only one.
        await database.users.create_index(
            NAME_KEY, unique=True, partialFilterExpression={NAME_KEY: {"$exists": True}}
        )
        return database.users

    return MongoDBService(users, paginate=PAGES), MessagesInMongoDB(
        database.messages, paginate=PAGES
    )
