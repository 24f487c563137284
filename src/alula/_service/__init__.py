"""The handle of a service: untyped, or with the types of its records for type checkers."""

from alula._service._handle import Given as Given
from alula._service._handle import RawQuery as RawQuery
from alula._service._handle import ServiceHandle, event_records, owning_handle
from alula._service._live_options import LiveOptions, UsersOf
from alula._service._typed import AnyTypedService as AnyTypedService
from alula._service._typed import CustomMethod, StreamedItems, StreamMethod, TypedService
from alula._service._typed import check_service_type as check_service_type

__all__ = [
    "CustomMethod",
    "LiveOptions",
    "ServiceHandle",
    "StreamMethod",
    "StreamedItems",
    "TypedService",
    "UsersOf",
    "event_records",
    "owning_handle",
]
