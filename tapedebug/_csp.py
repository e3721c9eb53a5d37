"""Content security policy of pages that we write: their own style and script, by hash, and nothing else."""

from __future__ import annotations

import base64
import hashlib


def source_hash(text: str) -> str:
    """The source of a content-security policy that a style or script with this text is."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
