"""What every adapter has to do, on a real server."""

from __future__ import annotations

import pytest
from bson import ObjectId
from tests.adapters.mongodb.conftest import DATABASE

from alula.adapters.mongodb import MongoDBService
from alula.testing import AdapterSuite


class TestMongoDB(AdapterSuite):
    @pytest.fixture(autouse=True)
    def _client(self, client):
        self.client = client

    async def make_service(self, **options):
        collection = self.client[DATABASE][f"suite{ObjectId()}"]

        async def model():
            if options.get("id"):
                await collection.create_index(options["id"], unique=True)
            return collection

        return MongoDBService(model, **options)
