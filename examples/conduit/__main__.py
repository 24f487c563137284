"""Start the blog: ``python -m examples.conduit --database sqlite:///conduit.sqlite``."""

import argparse
import os
import secrets

from examples.conduit.app import make_app


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m examples.conduit", description=__doc__)
    parser.add_argument("--database", default="sqlite:///conduit.sqlite", help="%(default)s")
    parser.add_argument("--port", type=int, default=3000, help="TCP port (%(default)s)")
    given = parser.parse_args()
    # Without a secret of its own, tokens end with the process.
    secret = os.environ.get("ALULA_SECRET") or secrets.token_urlsafe(48)
    make_app(given.database, secret).run(given.port)


if __name__ == "__main__":
    main()
