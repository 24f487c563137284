"""Checks that granian is there, and has the private parts that are used of it."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, Final, cast

__all__ = ["check_granian"]

_SIGNATURES: Final = {
    "_granian.SocketHolder": "fd uds backlog",
    "_granian.WorkerSignal": "",
    "_granian.WorkerSignal.add_cb": "self cb",
    "_granian.WorkerSignal.set": "self",
    "_granian.ASGIWorker": "worker_id sock ipc threads blocking_threads py_threads"
    " py_threads_idle_timeout backpressure http_mode http1_opts http2_opts websockets_enabled"
    " static_files ssl_enabled ssl_cert ssl_key ssl_key_password ssl_protocol_min ssl_ca ssl_crl"
    " ssl_client_verify metrics",
    "_granian.ASGIWorker.serve_async": "self callback event_loop signal",
    "_granian.CallbackScheduler": "event_loop cb aio_task aio_tenter aio_texit",
    "http.HTTP1Settings": "header_read_timeout keep_alive max_buffer_size pipeline_flush",
}
"""What is called of granian, with its parameters."""


def check_granian() -> None:
    """Check that granian has all that is used of it, on a system where it can be guarded.

    Raises:
        ImportError: Something is missing; the text names it, and the versions that work.
    """
    if sys.platform != "linux":
        raise ImportError(
            "server='granian' needs Linux: no other system tells what clients have read, and"
            " without that, clients that stall have no limit. Leave it out to use uvicorn"
        )
    try:
        declared = [line.partition(";")[0].strip() for line in requires("alula") or ()]
    except PackageNotFoundError:  # a copy of the source that is not installed
        declared = []
    works = next((line for line in declared if line.startswith("granian")), "alula[granian]")
    try:
        installed = version("granian")
    except PackageNotFoundError:
        raise ImportError(
            f"granian is not installed; install it with: pip install '{works}'"
        ) from None
    for name, parameters in _SIGNATURES.items():
        module, _, path = name.partition(".")
        try:
            part: Any = cast("Any", import_module(f"granian.{module}"))
            for attribute in path.split("."):
                part = getattr(part, attribute)
            actual = " ".join(inspect.signature(part).parameters)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            actual = repr(error)
        if actual != parameters:
            raise ImportError(
                f"alula.express does not work with granian {installed}: granian.{name} takes"
                f" ({actual}), not ({parameters}). Install a version that works:"
                f" pip install '{works}'"
            )
