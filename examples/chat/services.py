"""The services of the chat."""

from typing import Any

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest

EMOJI = ("👍", "❤️", "😂", "🎉")


class Messages(MemoryService):
    """Messages in memory, with a custom method beside the standard ones."""

    app: App

    async def setup(self, app: App, path: str) -> None:
        """Remember the application, and say hello in an empty room."""
        self.app = app
        guide = await app.service("users").create({"name": "Alula"})
        hello = "Welcome! Open this page in a second tab and talk to yourself."
        await app.service(path).create({"text": hello, "userId": guide["id"]})

    async def react(self, data: Any, _: Params) -> Any:
        """Add one reaction to a message: ``{"id": 1, "emoji": "🎉"}``."""
        emoji = data.get("emoji") if isinstance(data, dict) else None
        if emoji not in EMOJI:
            raise BadRequest(f"emoji must be one of {' '.join(EMOJI)}")
        messages = self.app.service("messages")
        message = await messages.get(data.get("id"))
        reactions = {**message["reactions"], emoji: message["reactions"].get(emoji, 0) + 1}
        return await messages.patch(message["id"], {"reactions": reactions})
