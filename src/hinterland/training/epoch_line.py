"""An epoch of training as a line of text."""

from __future__ import annotations

import sys
from typing import Any

from ..runtime.units import format_bytes, format_rate


def epoch_line(epoch: dict[str, Any]) -> str:
    """What an epoch's object of the history says: loss, accuracy, seconds, and of batches how much was read from where."""
    valid = f", validation {epoch['valid_accuracy']:.2%}" if "valid_accuracy" in epoch else ""
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in epoch["stages"].items())
    read = f", {format_bytes(epoch['bytes'])} of features" if "bytes" in epoch else ""
    read += "".join(part(epoch) for part in (_served, _stored, _captured, _bound) if "bytes" in epoch)
    return (
        f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}, accuracy {epoch['accuracy']:.2%}{valid}; {epoch['seconds']:.2f} s "
        f"({stages}); {epoch['seeds_per_second']:,.0f} seeds/s, {epoch['edges_per_second']:,.0f} edges/s{read}"
    )


def _captured(epoch: dict[str, Any]) -> str:
    """How many steps were replayed, how many batches did not fit their shape, and what of the rows filled it."""
    if not epoch.get("replayed"):
        return ""
    overflowed = f", {epoch['overflowed']:,} too large" if epoch["overflowed"] else ""
    return f"; {epoch['replayed']:,} of {epoch['batches']:,} steps replayed{overflowed}, {epoch['padding']:.1%} of rows padding"


def _served(epoch: dict[str, Any]) -> str:
    """How much the GPU's own memory, and other GPUs', served, and what came over the link."""
    served, link = epoch["served"], epoch["link"]
    if served is None or not any((served["rows"]["local"], served["rows"]["peers"], served["edges"], link)):
        return ""
    peers = f", {served['rows']['peers']:.1%} from other GPUs" if served["rows"]["peers"] else ""
    text = f"; kept in GPU memory: {served['rows']['local']:.1%} of rows{peers}, {served['edges']:.1%} of edges"
    if link is None:
        return text
    share = "" if link["share"] is None else f", {link['share']:.0%} of what it can"
    return f"{text}; link {format_rate(link['bandwidth'])}{share}"


def _stored(epoch: dict[str, Any]) -> str:
    """What was read from storage, how much of it was in the cache, and what a request took of the CPU."""
    moved = epoch["storage"]
    if moved is None:
        return ""
    pages = moved["hits"] + moved["misses"]
    hits = f", {moved['hits'] / pages:.1%} of pages in the cache" if pages else ""
    reads = f"{format_bytes(moved['bytes'])} in {moved['requests']:,} requests{hits}"
    return f"; storage {reads}, {moved['cpu_us_per_request']:.1f} us of a CPU for each"


def _bound(epoch: dict[str, Any]) -> str:
    return "" if epoch["binds"] is None else f"; bound by {epoch['binds']}"


def show_epoch(epoch: dict[str, Any]) -> None:
    """Prints the line where standard error is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(epoch_line(epoch), file=sys.stderr)
