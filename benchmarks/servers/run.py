"""Serves one of the applications here as its users would: ``app.run(port)``."""

import importlib
import sys

module, port = sys.argv[1:]
importlib.import_module(f"benchmarks.servers.{module}").app.run(int(port))
