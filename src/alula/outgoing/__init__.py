"""How values leave the application: JSON encoders, and what clients never see."""

from alula.outgoing._encoders import register_json_encoder
from alula.outgoing._redaction import HiddenValue, RedactedRecord, public_part, public_result

__all__ = [
    "HiddenValue",
    "RedactedRecord",
    "public_part",
    "public_result",
    "register_json_encoder",
]
