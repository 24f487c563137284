"""Services that answer what they were called with."""

from __future__ import annotations

from typing import Any


class Echo:
    """Answers what it was called with."""

    async def find(self, params):
        return self.reply("find", params)

    async def get(self, id, params):
        return self.reply("get", params, id=id)

    async def create(self, data, params):
        return self.reply("create", params, data=data)

    async def update(self, id, data, params):
        return self.reply("update", params, id=id, data=data)

    async def patch(self, id, data, params):
        return self.reply("patch", params, id=id, data=data)

    async def remove(self, id, params):
        return self.reply("remove", params, id=id)

    def reply(self, method, params, **given):
        called = {"query": params.query, "provider": params.provider, "route": params.route}
        return {"method": method, **given, **called}


class HeaderEcho(Echo):
    """Answers some headers, too."""

    def reply(self, method, params, **given):
        names = ("x-request-id", "accept", "x-empty")
        headers = {name: params.headers[name] for name in names if name in params.headers}
        return {**super().reply(method, params, **given), "headers": headers}


def echoes(app: Any) -> None:
    """Register the services that answer what they got."""
    for path in ("echo", "Mixed/Case", "deep/path/echo"):
        app.use(path, Echo())
    for path in ("users/:userId/messages", "orgs/:org/repos/:repo/issues"):
        app.use(path, HeaderEcho())
