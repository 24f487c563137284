"""The ceiling of creating: a bare ASGI function that validates JSON and stores it in a dict."""

from benchmarks.servers.bare import read_json, send_json
from benchmarks.servers.messages import Message, store


async def app(_, receive, send):
    try:
        message = Message.model_validate(await read_json(receive))
    except ValueError as error:  # of JSON, or of the model
        await send_json(send, {"message": str(error)}, 400)
        return
    await send_json(send, store(message), 201)
