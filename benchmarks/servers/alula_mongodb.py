"""Alula on a collection of MongoDB, with the middleware that an application has."""

import os

from pymongo import AsyncMongoClient

from alula import App
from alula.adapters.mongodb import MongoDBService
from alula.express import error_handler, express, json, not_found, rest, urlencoded

client = AsyncMongoClient(os.environ["BENCH_MONGODB"])
app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
collection = client["bench"]["records"]
app.use("records", MongoDBService(collection, paginate={"default": 10, "max": 50}))
app.use(not_found(), error_handler())
