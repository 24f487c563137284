"""Start the chat: ``python -m examples.chat``."""

import argparse
import asyncio
import logging
import os
import secrets
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from examples.chat.app import make_app

READY = """
  The chat is at       {url}
  Its messages are at  {url}/messages
  {kept}
  Register, sign in and say something from another terminal:

    curl {url}/users -H 'Content-Type: application/json' \\
      -d '{{"name": "Curl", "password": "from the shell"}}'
    TOKEN=$(curl {url}/authentication -H 'Content-Type: application/json' \\
      -d '{{"strategy": "local", "name": "Curl", "password": "from the shell"}}' |
      sed 's/.*"accessToken":"\\([^"]*\\)".*/\\1/')
    curl {url}/messages -H "Authorization: Bearer $TOKEN" \\
      -H 'Content-Type: application/json' -d '{{"text": "Hello from curl"}}'

  Ctrl+C stops it.
"""

ANOTHER_PORT = "make demo PORT=3031, or python -m examples.chat --port 3031"
DATA = Path(__file__).parents[2] / ".data" / "chat"
IN_MEMORY = "It forgets everything when it ends"


async def serve(given: argparse.Namespace) -> None:
    """Serve until a signal arrives."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        database, kept = await storage(given, stack)
        forgets = database is None or "ALULA_SECRET" in os.environ
        app = make_app(database, None if forgets else secret_of(given.data))
        server = await app.listen(given.port, given.host)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(server.close))
        print(READY.format(url=server.url, kept=kept), flush=True)
        await server.wait_closed()


def secret_of(data: Path) -> str:
    """Return the secret beside a data folder; create it if it does not exist.

    With the same secret, users stay signed in after a restart.
    """
    path = data.with_name(f"{data.name}.secret")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))
    return path.read_text()


async def storage(given: argparse.Namespace, stack: AsyncExitStack) -> tuple[Any, str]:
    """Return the database, or None for memory, and a line for the user about where the data is.

    Raises:
        RuntimeError: A MongoDB is installed, but it did not start.
    """
    if given.memory:
        return None, f"{IN_MEMORY}."
    try:  # the chat in memory works without the extra `mongodb`, so import it late
        from alula.local_mongodb import LocalServer, MongodMissing  # noqa: PLC0415  # only without a server of one's own
    except ImportError as error:
        return None, f"{IN_MEMORY}: {error}."
    from pymongo import AsyncMongoClient  # noqa: PLC0415  # loaded where it is needed

    url, where = given.mongodb, "in the database of --mongodb"
    if url is None:
        try:
            local = await stack.enter_async_context(LocalServer(given.data))
        except MongodMissing as error:
            return None, f"{IN_MEMORY}: {error}."
        url, where = local.url, f"in {given.data} (MongoDB at {local.url})"
    client = await stack.enter_async_context(AsyncMongoClient(url))
    return client.get_default_database("alula_chat"), f"It keeps everything {where}."


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.chat", description=__doc__)
    port = os.environ.get("PORT") or "3030"
    parser.add_argument("--port", type=int, default=port, help="TCP port, 0 for any (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--data", type=Path, default=DATA, help="folder of the data (%(default)s)")
    kept.add_argument("--memory", action="store_true", help="keep everything in memory only")
    kept.add_argument("--mongodb", metavar="URL", help="keep everything in this MongoDB")
    return parser.parse_args()


def main() -> None:
    """Read the command line and serve."""
    given = arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        asyncio.run(serve(given))
    except OSError as error:
        raise SystemExit(f"{error.strerror}: {ANOTHER_PORT}") from None
    except (ValueError, RuntimeError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
