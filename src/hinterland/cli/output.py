"""What a command prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import Any


def emit(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Prints ``result`` as one JSON object, and nothing else, with ``--json``; otherwise ``text`` for people."""
    print(json.dumps(result) if as_json else text)
