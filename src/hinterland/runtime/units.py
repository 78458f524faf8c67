"""Bytes and rates, read and written the way people do."""

import decimal
import re
from dataclasses import dataclass

from .arguments import repr_of, whole_number
from .errors import ConfigError

_FACTORS = {"": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _FACTORS[f"{_letter}b"] = 1000**_power
    _FACTORS[f"{_letter}ib"] = _FACTORS[_letter] = 1024**_power
_FACTORS["b"] = 1

_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")
_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%\s*")


def parse_bytes(size: int | str) -> int:
    """Bytes in ``size``: an int, or text such as ``"4GiB"``, ``"512 MiB"``, ``"1.5GB"``, ``"64k"`` (k, M, G alone are binary).

    Raises:
        ConfigError: the text is no size, or the size is negative.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ConfigError(f"a size cannot be negative: {repr_of(size)}")
        return whole_number("a size in bytes", size)
    match = _BYTES.fullmatch(size) if isinstance(size, str) else None
    if match is None or match[2].lower() not in _FACTORS:
        raise ConfigError(f"not a size in bytes: {repr_of(size)}; write for example 4GiB, 512MB or 65536")
    return whole_number("a size in bytes", int(decimal.Decimal(match[1]) * _FACTORS[match[2].lower()]))


@dataclass(frozen=True)
class Share:
    """A part of a whole, from 0 to 1, as written."""

    part: decimal.Decimal

    def of(self, whole: int) -> int:
        """How many of ``whole`` that is, rounded."""
        return round(self.part * whole)


def parse_share(text: str) -> Share | None:
    """The share in text such as ``"10%"``; None where there is no per cent sign.

    Raises:
        ConfigError: it is no number, or more than all.
    """
    if "%" not in text:
        return None
    match = _SHARE.fullmatch(text)
    if match is None or decimal.Decimal(match[1]) > 100:
        raise ConfigError(f"not a share: {repr_of(text)}; write a number from 0 to 100 with %, as 10%")
    return Share(decimal.Decimal(match[1]) / 100)


def format_bytes(size: float) -> str:
    """``size`` in binary units with three digits: ``format_bytes(4 << 30) == "4.00 GiB"``."""
    size = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_rate(bytes_per_second: float) -> str:
    """A bandwidth in GB/s (10^9 bytes), the unit that links are quoted in."""
    return f"{bytes_per_second / 1e9:.2f} GB/s"
