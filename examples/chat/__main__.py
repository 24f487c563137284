"""Start the chat: ``python -m examples.chat``."""

import argparse
import asyncio
import logging
import os
import signal

from examples.chat.app import app

READY = """
  The chat is at       {url}
  Its messages are at  {url}/messages
  Say something from another terminal:

    curl {url}/messages -H 'Content-Type: application/json' \\
      -d '{{"text": "Hello from curl", "userId": 1}}'

  Ctrl+C stops it.
"""

ANOTHER_PORT = "make demo PORT=3031, or python -m examples.chat --port 3031"


async def serve(host: str, port: int) -> None:
    """Listen until a signal comes."""
    loop = asyncio.get_running_loop()
    server = await app.listen(port, host)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(server.close))
    print(READY.format(url=server.url), flush=True)
    await server.wait_closed()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m examples.chat", description=__doc__)
    port = os.environ.get("PORT") or "3030"
    parser.add_argument("--port", type=int, default=port, help="TCP port, 0 for any (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        asyncio.run(serve(given.host, given.port))
    except OSError as error:
        raise SystemExit(f"{error.strerror}: {ANOTHER_PORT}") from None
    except ValueError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
