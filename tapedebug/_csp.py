"""Content security policy of generated pages: their own style and script, by hash, and nothing else."""

from __future__ import annotations

import base64
import hashlib


def source_hash(text: str) -> str:
    """Return the hash source of a content security policy for a style or script with this text."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
