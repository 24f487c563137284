"""One module per server that is measured; each is an ASGI application named ``app``."""
