"""All that reaches into uvicorn: its HTTP/1 protocols with limits, and its server.

The modules of this package depend on private parts of uvicorn. They are loaded when a server
starts. Importing any of them runs the check below first: if something is missing, the start fails
and names the versions that work. Without the guards, slow and hostile clients would have no limits,
so it never fails open.
"""

from alula.express._uvicorn.check import check_uvicorn
from alula.express._uvicorn.protocol import HTTPProtocol
from alula.express._uvicorn.server import UvicornServer, fastest_loop, uvicorn_server

__all__ = ["HTTPProtocol", "UvicornServer", "fastest_loop", "uvicorn_server"]

check_uvicorn()
