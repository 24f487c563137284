"""OpenTelemetry in a new application: loaded only if the settings enable it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cli.generator.applications import alula, files_of
from tests.cli.serving.commands import SOURCE

# A process of its own: the provider can be set once in each, and counts for all of it.
CODE = """
import asyncio, sys
from urllib.request import urlopen

from app import app, make_app
from configuration import Settings, load_settings

assert app.settings[Settings].telemetry is False
assert not [name for name in sys.modules if name.startswith("opentelemetry")]

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
trace.set_tracer_provider(provider := TracerProvider())
provider.add_span_processor(SimpleSpanProcessor(spans))
traced = make_app(load_settings().model_copy(update={"telemetry": True}))


async def call():
    async with await traced.listen(0) as server:
        for path in ("/health/ready", "/messages"):
            await asyncio.to_thread(lambda: urlopen(server.url + path).close())


asyncio.run(call())
print(*(span.name for span in spans.get_finished_spans()), sep="\\n")
"""


def test_it_is_there_when_the_settings_ask_for_it(tmp_path, monkeypatch):
    alula(tmp_path, monkeypatch, "new", "shop")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.stdout.splitlines() == ["messages find", "GET /messages"], done.stderr


def test_the_readme_names_the_variable_that_turns_it_on(tmp_path, monkeypatch):
    alula(tmp_path, monkeypatch, "new", "my-shop")
    files = files_of(tmp_path / "my-shop")
    assert "export MY_SHOP_TELEMETRY=true OTEL_SERVICE_NAME=my-shop\n" in files["README.md"]
    assert "\ntelemetry = [" in files["pyproject.toml"]
