"""Files: forms that are streamed to a store, records of them, and safe downloads.

Needs the extras ``server`` and ``files``; `S3FileStore` also needs ``s3``.
"""

try:
    # For the message below; the modules import them themselves.
    import orjson as _orjson  # noqa: F401  # to see whether it is there
    import python_multipart as _python_multipart  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.files needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[server,files]'"
    ) from error

from alula.files._content import INLINE_TYPES, file_content
from alula.files._file_body import file_body
from alula.files._local_store import LocalFileStore
from alula.files._multipart import multipart
from alula.files._s3_store import S3FileStore
from alula.files._signed_urls import UrlSigner
from alula.files._store import FileStore
from alula.files._upload import Part, Upload
from alula.files._upload_service import UploadService

__all__ = [
    "INLINE_TYPES",
    "FileStore",
    "LocalFileStore",
    "Part",
    "S3FileStore",
    "Upload",
    "UploadService",
    "UrlSigner",
    "file_body",
    "file_content",
    "multipart",
]
