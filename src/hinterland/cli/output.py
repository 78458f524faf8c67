"""What a command prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from typing import Any

from ..runtime.errors import StorageError


def emit(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Prints ``result`` as one JSON object, and nothing else, with ``--json``; otherwise ``text`` for people.

    JSON has no NaN and no infinity: they become null.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a file name that is no UTF-8 comes out as it is
    try:
        print(json.dumps(_finite(result), allow_nan=False) if as_json else text, flush=True)
    except BrokenPipeError:
        raise  # whoever read the output has enough; the command line ends quietly
    except OSError as error:
        # What is left in the buffer would be refused once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StorageError(f"standard output cannot be written: {error.strerror}; the result is lost") from error


def _finite(value: Any) -> Any:
    """The same with None for each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
