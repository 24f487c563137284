"""Alula as in `alula_app`, with a property that is worked out for every record of an answer."""

from alula.schema import resolve, resolve_result, virtual
from benchmarks.servers.alula_app import app

title = virtual(lambda message: f"{message['room']}: {message['text']}")
app.service("memory").hooks(around=[resolve_result(resolve({"title": title}))])
