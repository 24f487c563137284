"""Start the chat: ``python -m examples.chat``."""

import argparse
import asyncio
import logging
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


async def main() -> None:
    """Listen until somebody stops it."""
    parser = argparse.ArgumentParser(prog="python -m examples.chat", description=__doc__)
    parser.add_argument("--port", type=int, default=3030, help="TCP port, 0 for any (3030)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        server = await app.listen(options.port, options.host)
    except OSError as error:
        raise SystemExit(f"{error}: make demo PORT=3031") from None
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, server.close)
    print(READY.format(url=server.url), flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
