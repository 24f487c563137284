"""Three servers of MongoDB on this machine as one replica set, to be killed at will."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from alula.local_mongodb import Mongod, form_replica_set

NAME = "faults"
SECONDS_TO_HEAL = 60

# Short, so that a test sees many elections. Clusters elect after 10 seconds by default.
SETTINGS = {"electionTimeoutMillis": 1500, "heartbeatIntervalMillis": 300}

PRIMARY, SECONDARY = 1, 2


class ReplicaSet:
    """The servers, and what can happen to them."""

    def __init__(self, folder: Path) -> None:
        self.members = [Mongod(folder / str(n), replica_set=NAME) for n in range(3)]

    @property
    def url(self) -> str:
        """The URL that names all of them."""
        return f"mongodb://{','.join(each.address for each in self.members)}/?replicaSet={NAME}"

    async def start(self) -> None:
        """Start those that do not run, make them a set, and wait until all take part."""
        await asyncio.gather(*(member.start() for member in self.members))
        await form_replica_set(self.members, SETTINGS)
        await self.heal()

    def kill(self) -> None:
        """End all of them at once."""
        for member in self.members:
            member.kill()

    async def kill_primary(self) -> Mongod:
        """End the primary at once, as a failing machine would, and return it."""
        primary = await self.primary()
        primary.kill()
        return primary

    async def primary(self) -> Mongod:
        """Return the primary, once there is one."""
        end = time.monotonic() + SECONDS_TO_HEAL
        while time.monotonic() < end:
            for member in self.members:
                if (await self._states(member)).get(member.address) == PRIMARY:
                    return member
            await asyncio.sleep(0.05)
        raise TimeoutError("the set has no primary")

    @asynccontextmanager
    async def frozen_primary(self) -> AsyncIterator[None]:
        """Stop the primary without closing its connections, as a broken network would."""
        process = (await self.primary())._process
        process.send_signal(signal.SIGSTOP)
        # Until then, a thread on another core may still answer.
        await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    async def heal(self) -> None:
        """Start those that do not run, and wait until there is one primary that all follow."""
        await asyncio.gather(*(member.start() for member in self.members))
        end = time.monotonic() + SECONDS_TO_HEAL
        while time.monotonic() < end:
            states = await self._states(self.members[0])
            if sorted(states.values()) == [PRIMARY, SECONDARY, SECONDARY]:
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"the set did not heal: {states}")

    async def _states(self, member: Mongod) -> dict[str, int]:
        """Return the state of each member, by its address, as one of them sees it."""
        if not member.is_running():
            return {}
        client = AsyncMongoClient(
            "127.0.0.1", member.port, directConnection=True, serverSelectionTimeoutMS=2000
        )
        async with client:
            try:
                status = await client.admin.command("replSetGetStatus")
            except PyMongoError:
                return {}
        return {each["name"]: each["state"] for each in status["members"]}
