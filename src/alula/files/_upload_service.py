"""The service of uploads: records of any adapter, and the bytes in a store.

One content may belong to several records, and several processes may add and remove such records
at once. No lock is needed, since both hold a staged copy of the content until they are done:

- `create` commits, adds the record, and commits again: what a removal withdrew before it could see
  the record is there again;
- `remove` withdraws, looks for records again, and commits if there is one now.

A process that is killed in between leaves its staged copy, and `sweep` decides later in the same
way.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping
from copy import copy
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

from alula._context import Params
from alula._service import ServiceHandle
from alula._service_object import ServiceBundle
from alula.errors import BadRequest, UnsupportedMediaType
from alula.files._content_types import UNKNOWN_TYPE, is_content_type
from alula.files._form import Upload, check_file_name
from alula.files._store import FileStore, StagedFile
from alula.outgoing import RedactedRecord, javascript_date, now_as_in_json
from alula.query import Grammar
from alula.types import Id, Record, is_list, is_mapping

__all__ = ["UploadService"]

_FACTS: Final = frozenset({"type", "size", "sha256", "createdAt"})
_MIN_LEFTOVER_AGE: Final = 3600
_GRAMMAR: Final = Grammar()

# By store: the service that is set up with it.
_SERVICE_OF: Final[WeakKeyDictionary[FileStore, ref[UploadService]]] = WeakKeyDictionary()


class _File(NamedTuple):
    """A staged file, and what its record says of it."""

    staged: StagedFile
    name: str
    type: str


class UploadService:
    """A service that takes files, by forms (`multipart`) or from the program itself.

    A record has ``name``, ``type``, ``size``, ``sha256``, ``createdAt``, and the id of its adapter.
    ``create`` takes a form: ``data["upload"]`` is an `Upload`, which is read when all hooks have
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
        takes_uploads: True: `multipart` passes forms to services that have this attribute.

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
        self._check_record: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
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
        }
        return {
            "type": "object",
            "properties": {**facts, **dict.fromkeys(sorted(self.fields), text)},
            "required": list(facts),
            "additionalProperties": True,
        }

    def with_record_check(
        self, check: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> UploadService:
        """Return the same service that checks each new record; `with_schema` calls this.

        Args:
            check: Takes a record without its id, and returns it as it is to be stored.
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
        """Keep the files of a form, or the given content; return the record or records.

        Raises:
            UnsupportedMediaType: The data of a client is not a form.
            BadRequest: The form is not valid, has no file or a field that is not allowed, or a
                record does not fit its schema.
            PayloadTooLarge: The form exceeds a limit.
        """
        _GRAMMAR.read_select(params.query)  # before anything is stored
        values = dict(data) if is_mapping(data) else {}
        upload = values.pop("upload", None)
        files: list[_File] = []
        new_records: list[dict[str, Any]] = []
        try:
            if isinstance(upload, Upload):
                values = {**await self._stage_form(upload, files), **values}
            elif params.provider is None and "content" in values:
                await self._stage_content(values, files)
            else:
                raise UnsupportedMediaType(
                    "Send files over HTTP as multipart/form-data; the server needs the middleware"
                    " multipart() in front of this service"
                )
            for staged, name, content_type in files:
                facts: dict[str, Any] = {"name": name, "type": content_type, "size": staged.size}
                facts["sha256"] = staged.sha256
                now = now_as_in_json()  # schemas know times as JSON has them
                new_record = {**values, **facts, "createdAt": javascript_date(now)}
                new_records.append({**self._check_record(new_record), **facts, "createdAt": now})
        except BaseException:
            for file in files:
                await self.store.discard(file.staged)
            raise
        records = await self._add_records(files, new_records, params)
        for file in files:
            await self.store.discard(file.staged)
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
        """Remove records, and their content unless other records have the same."""
        names = _GRAMMAR.read_select(params.query)
        is_added = names is not None and "sha256" not in names
        if is_added:  # needed here, and taken out below
            params = params.copy()
            params.query["$select"] = [*(names or ()), "sha256"]
        removed = await self.records.remove(id, params)
        records = removed if is_list(removed) else [removed]
        for sha256 in {record["sha256"] for record in records}:
            await self._release(sha256)
        if not is_added:
            return removed
        shown: list[Record] = []
        for record in records:
            kept = {name: value for name, value in record.items() if name != "sha256"}
            shown.append(record.changed(kept) if isinstance(record, RedactedRecord) else kept)
        return shown if is_list(removed) else shown[0]

    async def sweep(self) -> None:
        """Remove what interrupted uploads and removals have left; `setup` does this."""
        for file in await self.store.leftovers(self._leftover_age):
            await self._settle(file)

    async def _stage_form(self, upload: Upload, files: list[_File]) -> dict[str, str]:
        """Stage the files of a form, into ``files``; return its fields."""
        fields: dict[str, str] = {}
        async for part in upload:
            if part.file_name:
                staged = await self.store.stage(part)
                files.append(_File(staged, part.file_name, part.type))
            elif part.name in self.fields and part.name not in fields:
                fields[part.name] = await part.text()
            else:
                known = ", ".join(sorted(self.fields)) or "none"
                raise BadRequest(
                    f"The field {part.name!r} is not known here, or is there twice; the fields"
                    f" beside files are: {known}"
                )
        if not files:
            raise BadRequest("The form has no file; send one, such as by curl -F file=@photo.png")
        return fields

    async def _stage_content(self, values: dict[str, Any], files: list[_File]) -> None:
        """Stage what the program itself passes; take it out of ``values``."""

        async def in_one_piece(content: bytes) -> AsyncIterator[bytes]:
            yield content

        name, content_type = values.pop("name", None), values.pop("type", UNKNOWN_TYPE)
        check_file_name(name)
        if not isinstance(content_type, str) or not is_content_type(content_type):
            raise BadRequest(
                f"{content_type!r} is not a content type; write one in lower case, such as"
                " 'image/png'"
            )
        content: AsyncIterable[bytes] | bytes | bytearray | memoryview = values.pop("content")
        if isinstance(content, bytes | bytearray | memoryview):
            content = in_one_piece(bytes(content))
        elif not isinstance(content, AsyncIterable):
            raise BadRequest("content has to be bytes, or an asynchronous iterable of bytes")
        files.append(_File(await self.store.stage(content), name, content_type))

    async def _add_records(
        self, files: list[_File], new_records: list[dict[str, Any]], params: Params
    ) -> list[Record]:
        """Add a record for each file, or none at all."""
        records: list[Record] = []
        try:
            for (staged, *_), new_record in zip(files, new_records, strict=True):
                await self.store.commit(staged)
                records.append(await self.records.create(new_record, params))
                await self.store.commit(staged)
        except BaseException:
            for record in records:
                await self.records.remove(record[self.id], params.copy(query={}, provider=None))
            for file in files:
                await self._settle(file.staged)
            raise
        return records

    async def _settle(self, file: StagedFile) -> None:
        """Make a content readable if a record refers to it, else remove it; discard the copy."""
        # If the records cannot be read now, the copy stays for a later sweep.
        if file.sha256 is not None:
            if await self._is_referenced(file.sha256):
                await self.store.commit(file)
            else:
                await self._release(file.sha256)
        await self.store.discard(file)

    async def _is_referenced(self, sha256: str) -> bool:
        found = await self.records.find(
            Params(query={"sha256": sha256, "$limit": 1}, paginate=False)
        )
        return len(found) > 0

    async def _release(self, sha256: str) -> None:
        """Remove a content unless a record refers to it."""
        if await self._is_referenced(sha256):
            return
        withdrawn = await self.store.withdraw(sha256)
        if withdrawn is None:
            return
        is_referenced = True  # if the look-up fails: rather keep bytes than lose them
        try:
            is_referenced = await self._is_referenced(sha256)
        finally:
            if is_referenced:
                await self.store.commit(withdrawn)
            await self.store.discard(withdrawn)
