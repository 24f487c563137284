"""The service of uploads: records of any adapter, and the bytes in a store.

Each record has a key of its own, under which the store has its bytes. A mark in the store says that
a key is about to get its record, or to lose it:

- `create` writes the mark and the bytes, adds the record, and deletes the mark;
- `remove` writes the mark, removes the record, and deletes the bytes and the mark.

If a process is killed in between, the mark stays. `sweep` finds it, and deletes the bytes unless a
record refers to them. So bytes are only ever deleted under a key that was marked.
"""

from __future__ import annotations

import secrets
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
)
from contextlib import suppress
from copy import copy
from hashlib import sha256
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

from alula._context import Params
from alula._service import ServiceHandle
from alula._service_object import ServiceBundle
from alula.errors import BadRequest, NotFound, Unavailable, UnsupportedMediaType, shown_name
from alula.files._content_types import UNKNOWN_TYPE, is_content_type
from alula.files._store import FileStore
from alula.files._upload import Upload, check_file_name
from alula.outgoing import RedactedRecord
from alula.outgoing._text import javascript_date, now_as_in_json
from alula.query import Grammar
from alula.types import Id, Record, is_list, is_mapping

__all__ = ["UploadService"]

_KEY: Final = "contentKey"
_FACTS: Final = frozenset({"type", "size", "sha256", "createdAt", _KEY})
_MIN_LEFTOVER_AGE: Final = 3600

_STORING_SECONDS: Final = 600
"""How long it may take to add records once their bytes are there."""

_GRAMMAR: Final = Grammar()

# By store: the service that is set up with it.
_SERVICE_OF: Final[WeakKeyDictionary[FileStore, ref[UploadService]]] = WeakKeyDictionary()


RecordCheck: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Checks and resolves a new record."""


async def _unchecked(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return record


class _File(NamedTuple):
    """A file whose bytes are in the store, and what its record says of it."""

    key: str
    name: str
    type: str
    size: int
    sha256: str


class UploadService:
    """A service of files: sent by forms (`multipart`) or as bodies (`file_body`), or by own code.

    A record has ``name``, ``type``, ``size``, ``sha256``, ``createdAt``, the id of its adapter, and
    ``contentKey``, by which the store finds its bytes.
    ``create`` takes an upload: ``data["upload"]`` is an `Upload`, which is read when all hooks have
    agreed. All other properties that hooks put into ``data`` go into the record. A form with
    several files gives a list of records. The model of ``with_schema(UploadService(...), Model)``
    describes the whole record, which is checked when the form has been read.

    Your program passes content: ``create({"name": ..., "type": ..., "content": ...})``, where the
    content is bytes or an asynchronous iterable of bytes. Clients cannot.

    Examples:
        >>> import asyncio, tempfile
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.files import LocalFileStore
        >>> async def main():
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         app = App()
        ...         service = UploadService(LocalFileStore(folder), MemoryService())
        ...         uploads = app.use("uploads", service).service("uploads")
        ...         content = {"name": "a.txt", "type": "text/plain", "content": b"Hello"}
        ...         record = await uploads.create(content)
        ...         return record["name"], record["size"], record["sha256"][:8]
        >>> asyncio.run(main())
        ('a.txt', 5, '185f8db3')

    Args:
        store: Keeps the bytes, of this service alone: another one does not know its records.
        records: Keeps the records: a service such as `MemoryService`, or the handle of a registered
            one. No other service may write to it.
        fields: Names of fields that a form may have beside its files. Their texts go into each
            record; any other field is a 400.
        leftover_age: Seconds after which the remains of an interrupted upload are removed, at the
            next start. No request may take longer.

    Attributes:
        store: As given.
        id: The name of the id property.
        schema_keywords: Those of the service of the records, for `with_schema`.
        records: As given.
        fields: As given.
        takes_uploads: True: `multipart` and `file_body` pass uploads to services that have this
            attribute.

    Raises:
        TypeError: ``store`` is not a `FileStore`, or ``records`` has hooks that would not run.
        ValueError: ``leftover_age`` is under an hour, or a field has the name of another property.
    """

    takes_uploads = True

    def __init__(
        self,
        store: FileStore,
        records: Any,
        *,
        fields: Collection[str] = (),
        leftover_age: float = 24 * 3600,
    ) -> None:
        if not isinstance(store, FileStore):
            raise TypeError(f"store is {store!r}; give a FileStore, such as LocalFileStore(folder)")
        if isinstance(records, ServiceBundle):
            raise TypeError(
                f"records is {records!r}, whose hooks would not run here; wrap the whole:"
                " with_schema(UploadService(...), ...), or pass the handle of a registered service"
            )
        if isinstance(fields, str):
            raise TypeError(f"fields is one string; give a list: [{fields!r}]")
        if leftover_age < _MIN_LEFTOVER_AGE:
            raise ValueError(
                f"leftover_age is {leftover_age!r}; uploads that take longer would fail, so it is"
                f" at least {_MIN_LEFTOVER_AGE} seconds"
            )
        keeper = records
        while isinstance(keeper, ServiceHandle):
            keeper = keeper.service
        self.store = store
        self._keeper: Any = keeper
        self._check_record: RecordCheck = _unchecked
        self.id: str = getattr(keeper, "id", "id")
        # By these, `with_schema` knows types of the database, such as ids.
        self.schema_keywords: Collection[Any] = getattr(keeper, "schema_keywords", ())
        if taken := {"name", "upload", "content", self.id, *_FACTS}.intersection(fields):
            raise ValueError(f"fields has {min(taken)!r}, which clients cannot set")
        self.records = records
        self.fields = frozenset(fields)
        self._leftover_age = leftover_age

    @property
    def record_schema(self) -> dict[str, Any]:
        """The JSON Schema of its records, for descriptions; hooks may add further properties."""
        text: dict[str, Any] = {"type": "string"}
        facts: dict[str, Any] = {
            self.id: text if self.schema_keywords else {"anyOf": [{"type": "integer"}, text]},
            "name": text,
            "type": text,
            "size": {"type": "integer"},
            "sha256": text,
            "createdAt": {**text, "format": "date-time"},
            _KEY: text,
        }
        return {
            "type": "object",
            "properties": {**facts, **dict.fromkeys(sorted(self.fields), text)},
            "required": list(facts),
            "additionalProperties": True,
        }

    def with_record_check(self, check: RecordCheck) -> UploadService:
        """Return the same service that checks each new record; `with_schema` calls this.

        Args:
            check: Takes a record without its id, and returns it in the form that is stored.
        """
        checked = copy(self)
        checked._check_record = check  # noqa: SLF001  # same class
        return checked

    async def setup(self, app: Any, path: str) -> None:
        """Set up the service of the records, and sweep.

        Raises:
            ValueError: Another service uses the same store.
        """
        other = _SERVICE_OF.get(self.store, lambda: None)()
        if other not in {None, self}:  # each would remove what only the other refers to
            raise ValueError(
                f"the service at {path!r} has the {self.store!r} of another UploadService; give"
                " each a store of its own, such as a folder"
            )
        _SERVICE_OF[self.store] = ref(self)
        # A handle is set up by its application.
        if not isinstance(self.records, ServiceHandle) and hasattr(self.records, "setup"):
            await self.records.setup(app, path)
        await self.sweep()

    async def teardown(self, app: Any, path: str) -> None:
        """Tear down the service of the records, and close the store."""
        _SERVICE_OF.pop(self.store, None)
        try:
            if not isinstance(self.records, ServiceHandle) and hasattr(self.records, "teardown"):
                await self.records.teardown(app, path)
        finally:
            await self.store.close()

    async def find(self, params: Params) -> Any:
        """Return records, or a page of them."""
        return await self.records.find(params)

    async def get(self, id: Id, params: Params) -> Record:
        """Return one record."""
        record: Record = await self.records.get(id, params)
        return record

    async def create(self, data: Any, params: Params) -> Any:
        """Keep the files of an upload, or the given content; return the record or records.

        Raises:
            UnsupportedMediaType: The data of a client is not an upload.
            BadRequest: The upload is not valid, has no file, a file without a name or a field that
                is not allowed, or a record does not fit its schema.
            PayloadTooLarge: The upload exceeds a limit.
            Unavailable: The upload took longer than ``leftover_age``.
        """
        _GRAMMAR.read_select(params.query)  # before anything is stored
        values = dict(data) if is_mapping(data) else {}
        upload = values.pop("upload", None)
        began, keys = monotonic(), list[str]()
        try:
            if isinstance(upload, Upload):
                fields, files = await self._keep_upload(upload, keys)
                values = {**fields, **values}
            elif params.provider is None and "content" in values:
                files = [await self._keep_content(values, keys)]
            else:
                raise UnsupportedMediaType(
                    "Send files over HTTP as multipart/form-data; the server needs the middleware"
                    " multipart() in front of this service"
                )
            new_records = [await self._new_record(file, values) for file in files]
            if monotonic() - began > self._leftover_age:  # another process may have swept them
                raise Unavailable("The upload took too long; send it again")
        except BaseException:
            for key in keys:
                await self._delete(key)
            raise
        records = await self._add_records(keys, new_records, params)
        for key in keys:
            await self.store.delete(_mark_of(key))
        return records if len(records) > 1 else records[0]

    async def patch(self, id: Id, data: Any, params: Params) -> Any:
        """Change the name or properties of your own; what describes the content never changes.

        Raises:
            BadRequest: ``data`` has such a property, or a name that is not one of a file.
        """
        if is_mapping(data):
            for key in data:
                if key.partition(".")[0] in {*_FACTS, "upload", "content"} or key.startswith("$"):
                    raise BadRequest(f"{key!r} of an upload cannot be changed")
            if "name" in data:
                check_file_name(data["name"])
        return await self.records.patch(id, data, params)

    async def remove(self, id: Id, params: Params) -> Any:
        """Remove records and their bytes."""
        names = _GRAMMAR.read_select(params.query)
        is_added = names is not None and _KEY not in names
        keys = await self._keys_of(id, params)
        if is_added:  # needed here, and taken out below
            params = params.copy()
            params.query["$select"] = [*(names or ()), _KEY]
        for key in keys:
            await self._mark(key)
        try:
            removed = await self.records.remove(id, params)
        except BaseException:
            await self._settle_all(keys)
            raise
        records = removed if is_list(removed) else [removed]
        removed_keys = {record[_KEY] for record in records}
        for key in removed_keys:
            await self._delete(key)
        # Others may have removed them meanwhile, or changed them, so that the query left them out.
        for key in keys - removed_keys:
            await self._settle(key)
        if not is_added:
            return removed
        shown: list[Record] = []
        for record in records:
            kept = {name: value for name, value in record.items() if name != _KEY}
            shown.append(record.changed(kept) if isinstance(record, RedactedRecord) else kept)
        return shown if is_list(removed) else shown[0]

    async def sweep(self) -> None:
        """Finish what interrupted uploads and removals have left; `setup` does this."""
        for mark in await self.store.keys("mark", self._leftover_age + _STORING_SECONDS):
            await self._settle(mark.partition("/")[2])

    def store_key(self, record: Mapping[str, Any]) -> str:
        """Return the key in the store under which the bytes of a record are.

        Args:
            record: A record of this service.
        """
        return _content_of(record[_KEY])

    async def _keep_upload(
        self, upload: Upload, keys: list[str]
    ) -> tuple[dict[str, str], list[_File]]:
        """Keep the files of an upload under new keys; return its fields and files."""
        fields: dict[str, str] = {}
        files: list[_File] = []
        async for part in upload:
            if part.is_file:
                if not part.file_name:
                    raise BadRequest(
                        "The file has no name; send one in the header"
                        ' Content-Disposition: attachment; filename="photo.png"'
                    )
                files.append(await self._keep(part, part.file_name, part.type, keys))
            elif part.name in self.fields and part.name not in fields:
                fields[part.name] = await part.text()
            else:
                known = ", ".join(sorted(self.fields)) or "none"
                raise BadRequest(
                    f"The field {shown_name(part.name)!r} is not known here, or is there twice;"
                    " the fields"
                    f" beside files are: {known}"
                )
        if not files:
            raise BadRequest("The form has no file; send one, such as by curl -F file=@photo.png")
        return fields, files

    async def _keep_content(self, values: dict[str, Any], keys: list[str]) -> _File:
        """Keep what the program itself passes under a new key; take it out of ``values``."""
        name, content_type = values.pop("name", None), values.pop("type", UNKNOWN_TYPE)
        check_file_name(name)
        if not isinstance(content_type, str) or not is_content_type(content_type):
            raise BadRequest(
                f"{content_type!r} is not a content type; write one in lower case, such as"
                " 'image/png'"
            )
        content: AsyncIterable[bytes] | bytes | bytearray | memoryview = values.pop("content")
        if isinstance(content, bytes | bytearray | memoryview):
            content = _in_one_piece(bytes(content))
        elif not isinstance(content, AsyncIterable):
            raise BadRequest("content has to be bytes, or an asynchronous iterable of bytes")
        return await self._keep(content, name, content_type, keys)

    async def _keep(
        self, pieces: AsyncIterable[bytes], name: str, content_type: str, keys: list[str]
    ) -> _File:
        """Mark a new key, add it to ``keys``, and write the bytes of a file."""
        digest, size = sha256(), 0

        async def measured() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces:
                size += len(piece)
                digest.update(piece)
                yield piece

        key = secrets.token_hex(16)
        keys.append(key)
        # The bytes are flushed after the mark. If the power fails before, both are gone.
        await self._mark(key, flush=False)
        await self.store.write(_content_of(key), measured())
        return _File(key, name, content_type, size, digest.hexdigest())

    async def _new_record(self, file: _File, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a file, checked and resolved by the schema if there is one."""
        facts: dict[str, Any] = {
            "name": file.name,
            "type": file.type,
            "size": file.size,
            "sha256": file.sha256,
            _KEY: file.key,
        }
        now = now_as_in_json()  # schemas know times as JSON has them
        sent = {**values, **facts, "createdAt": javascript_date(now)}
        checked = await self._check_record(sent)
        return {**checked, **facts, "createdAt": now}

    async def _add_records(
        self, keys: list[str], new_records: list[dict[str, Any]], params: Params
    ) -> list[Record]:
        """Add a record for each file, or none at all."""
        records: list[Record] = []
        try:
            for new_record in new_records:
                records.append(await self.records.create(new_record, params))  # noqa: PERF401  # an error must leave what was added
        except BaseException:
            for record in records:
                await self.records.remove(record[self.id], params.copy(query={}, provider=None))
            await self._settle_all(keys)
            raise
        return records

    async def _keys_of(self, id: Id, params: Params) -> set[str]:
        """Return the keys of the records that a removal is about."""
        if id is None:
            if (check := getattr(self._keeper, "check_multi", None)) is not None:
                check("remove", params)  # before all records are read
            query = {name: value for name, value in params.query.items() if name != "$select"}
            query["$select"] = [_KEY]
            found = await self.records.find(params.copy(query=query, paginate=False, provider=None))
            return {record[_KEY] for record in found}
        # By the id alone: if the query of the client leaves the record out, its mark goes again.
        with suppress(NotFound):
            own = params.copy(query={"$select": [_KEY]}, provider=None)
            return {(await self.records.get(id, own))[_KEY]}
        return set()

    async def _mark(self, key: str, *, flush: bool = True) -> None:
        await self.store.write(_mark_of(key), _in_one_piece(b""), flush=flush)

    async def _delete(self, key: str) -> None:
        """Delete the bytes of a key, then its mark."""
        await self.store.delete(_content_of(key))
        await self.store.delete(_mark_of(key))

    async def _settle(self, key: str) -> None:
        """Delete the bytes of a marked key unless a record refers to it; delete the mark."""
        query = {_KEY: key, "$limit": 1}
        if await self.records.find(Params(query=query, paginate=False)):
            await self.store.delete(_mark_of(key))
        else:
            await self._delete(key)

    async def _settle_all(self, keys: Collection[str]) -> None:
        """Settle keys after an error; what fails is left to the next sweep."""
        with suppress(Exception):  # the first error says more
            for key in keys:
                await self._settle(key)


async def _in_one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _content_of(key: str) -> str:
    return f"content/{key}"


def _mark_of(key: str) -> str:
    return f"mark/{key}"
