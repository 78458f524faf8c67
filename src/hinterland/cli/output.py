"""What a command prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

from ..runtime.errors import StorageError


def emit(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Prints ``result`` as one JSON object, and nothing else, with ``--json``; otherwise ``text`` for people."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a file name that is no UTF-8 comes out as it is
    try:
        print(json.dumps(result, allow_nan=False) if as_json else text, flush=True)
    except BrokenPipeError:
        raise  # whoever read the output has enough; the command line ends quietly
    except OSError as error:
        # What is left in the buffer would be refused once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StorageError(f"standard output cannot be written: {error.strerror}; the result is lost") from error
