"""Adapters: services that keep their records in a store, one module for each store.

- `alula.adapters.memory`: `MemoryService`, in the memory of the process;
- `alula.adapters.mongodb`: `MongoDBService`, in collections of MongoDB;
- `alula.adapters.sql`: `SQLService`, on tables of PostgreSQL and SQLite;
- `alula.adapters.relations`: `belongs_to` and `has_many`, relations between services;
- `alula.adapters.base`: `AdapterService`, the base class of all of them.

Nothing is imported here: an application loads only the adapters that it uses.
"""
