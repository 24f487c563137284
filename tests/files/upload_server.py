"""A program with uploads, for tests that look at its memory or kill it: folder as its argument."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import NotAuthenticated
from alula.express import error_handler, express, rest
from alula.files import LocalFileStore, UploadService, file_content, multipart


async def guard(context):
    if context.params.provider and "authorization" not in context.params.headers:
        raise NotAuthenticated("Sign in")


async def main() -> None:
    app = express(App())
    app.use(multipart(max_file_size="20gb")).configure(rest())
    app.use("uploads", UploadService(LocalFileStore(Path(sys.argv[1])), MemoryService()))
    app.service("uploads").before("create")(guard)
    app.configure(file_content("uploads")).use(error_handler(logger=False))
    server = await app.listen(0)
    print(server.port, flush=True)
    await server.wait_closed()


asyncio.run(main())
