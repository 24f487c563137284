"""Serves one of the applications here as its users would: ``app.run(port)``, on either server."""

import importlib
import sys

module, port, *server = sys.argv[1:]
options = {"server": server[0]} if server else {}
importlib.import_module(f"benchmarks.servers.{module}").app.run(int(port), **options)
