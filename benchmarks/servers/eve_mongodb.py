"""Eve, with the schema of the records and no more than what the others do."""

import os

from eve import Eve

app = Eve(
    settings={
        "MONGO_URI": os.environ["BENCH_MONGODB"],
        "MONGO_DBNAME": "bench",
        "IF_MATCH": False,
        "BULK_ENABLED": False,
        "RESOURCE_METHODS": ["GET", "POST"],
        "ITEM_METHODS": ["GET", "PATCH"],
        "PAGINATION_DEFAULT": 10,
        "DOMAIN": {
            "records": {
                "schema": {
                    "text": {"type": "string"},
                    "room": {"type": "string"},
                    "read": {"type": "boolean"},
                    "createdAt": {"type": "integer"},
                },
            }
        },
    }
)
