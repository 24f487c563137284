"""Adapters: services that keep their records in a store, each in a module of its own.

- `alula.adapters.memory`: `MemoryService`, in the memory of the process;
- `alula.adapters.base`: `AdapterService`, what an adapter of your own derives from.

Nothing is imported here, so that nobody loads an adapter that is not used.
"""
