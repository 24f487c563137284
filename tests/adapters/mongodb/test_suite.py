"""What every adapter has to do, on a real server."""

from __future__ import annotations

import pytest
from tests.adapters.mongodb.conftest import DATABASE

from alula.adapters.mongodb import MongoDBService
from alula.testing import AdapterSuite


class TestMongoDB(AdapterSuite):
    @pytest.fixture(autouse=True)
    def _client(self, client):
        self.client = client
        self.number_made = 0

    # The handle of an application calls the adapter, so what is true through it is seldom wrong
    # without.
    @pytest.fixture(params=[pytest.param("adapter", marks=pytest.mark.release), "app"])
    def make(self, request):
        return lambda **options: self.subject(request.param, **options)

    async def make_service(self, **options):
        id_name = options.get("id")
        # The same few collections for all tests: making one takes far longer than emptying it.
        collection = self.client[DATABASE][f"suite_{id_name}_{self.number_made}"]
        self.number_made += 1
        await collection.delete_many({})

        async def model():
            if id_name:
                await collection.create_index(id_name, unique=True)
            return collection

        return MongoDBService(model, **options)
