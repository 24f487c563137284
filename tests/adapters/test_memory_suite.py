"""The memory adapter keeps all rules that adapters share."""

from __future__ import annotations

from alula.adapters.memory import MemoryService
from alula.testing import AdapterSuite


class TestMemory(AdapterSuite):
    async def make_service(self, **options):
        return MemoryService(**options)
