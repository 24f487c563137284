"""A program with uploads, for tests that look at its memory or kill it.

Its arguments are a folder, or a bucket and the port of its server.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.files.s3_server import s3_store

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
    name, *port = sys.argv[1:]
    store = s3_store(name, int(port[0])) if port else LocalFileStore(Path(name))
    app.use("uploads", UploadService(store, MemoryService()))
    app.service("uploads").before("create")(guard)
    app.configure(file_content("uploads")).use(error_handler(logger=False))
    server = await app.listen(0)
    print(server.port, flush=True)
    await server.wait_closed()


asyncio.run(main())
