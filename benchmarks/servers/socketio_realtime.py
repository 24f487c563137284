"""python-socketio as its documentation has it: what `alula_realtime` answers, without services."""

from __future__ import annotations

from typing import Any

import socketio

sio = socketio.AsyncServer(async_mode="asgi")
app = socketio.ASGIApp(sio)


@sio.event
async def connect(sid: str, environ: dict[str, Any]) -> None:
    """Let everybody hear everything."""
    await sio.enter_room(sid, "everyone")


@sio.event
async def create(
    sid: str, path: str, data: dict[str, Any], query: dict[str, Any]
) -> tuple[None, dict[str, Any]]:
    """Answer the data with an id; tell everybody of what comes to `feed`."""
    record = {"id": 1, **data}
    if path == "feed":
        await sio.emit("feed created", record, room="everyone")
    return None, record
