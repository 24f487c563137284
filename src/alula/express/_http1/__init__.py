"""HTTP/1 and websockets with limits for slow and hostile clients, and the server of `listen`.

uvicorn reads the options and loads certificates and the event loop. Its own protocols have no
limits, so `HTTPProtocol` and `WebSocketProtocol` take their place, by uvicorn's public settings.
"""

from alula.express._http1.protocol import HTTPProtocol
from alula.express._http1.server import HTTPServer, fastest_loop, http_server

__all__ = ["HTTPProtocol", "HTTPServer", "fastest_loop", "http_server"]
