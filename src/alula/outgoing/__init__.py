"""How values leave the application: JSON encoders, and what clients never see."""

from alula.outgoing._encoders import register_json_encoder
from alula.outgoing._redaction import HiddenValue, RedactedRecord, public_part

__all__ = ["HiddenValue", "RedactedRecord", "public_part", "register_json_encoder"]
