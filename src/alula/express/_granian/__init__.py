"""All that reaches into granian: its acceptor on our sockets, with limits around it.

granian is a server in Rust. It parses requests and writes responses in a thread of its own. What it
does not bound, this package does: from the application's side (`guard`), and from that of the
operating system (`connections`). `server` starts and stops it as `alula.express._server` asks.

Importing the package checks the private parts of granian that are used. If one is missing, the
import fails and names the versions that work.
"""

from alula.express._granian.check import check_granian

check_granian()

from alula.express._granian.server import granian_server  # noqa: E402  # it imports granian

__all__ = ["granian_server"]
