"""Line charts with logarithmic axes, as SVG text: nothing to install, nothing to load."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 14, 44


@dataclass(frozen=True)
class ChartLine:
    """One curve: its name, its points, the colour (1 to 4, a CSS variable of the page) and whether it is dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart: axis titles, how their ticks read, its curves, and ceilings that are drawn across it with their name.

    Charts that are to be compared share ``y_range``, the lowest and highest value of all; None fits the axis to the data.
    """

    title: str
    x_title: str
    y_title: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    lines: Sequence[ChartLine]
    ceilings: Sequence[tuple[str, float]] = ()
    y_range: tuple[float, float] | None = None

    def svg(self) -> str:
        """The chart as an SVG element."""
        xs = sorted({x for line in self.lines for x, _ in line.points})
        ys = [y for line in self.lines for _, y in line.points if y > 0] + [y for _, y in self.ceilings]
        lowest, highest = self.y_range or (min(ys), max(ys))
        low, high = lowest / 1.5, highest * 1.5  # no point lies on an edge
        across, up = _scale(xs[0], xs[-1], _LEFT, WIDTH - _RIGHT), _scale(low, high, HEIGHT - _BOTTOM, _TOP)
        parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title, quote=True)}">']
        for y in _ticks(low, high):
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>')
            parts.append(_text(_LEFT - 8, up(y) + 4, self.y_text(y), "end"))
        shown = xs if len(xs) <= 8 else xs[::2]
        parts += [_text(across(x), HEIGHT - _BOTTOM + 18, self.x_text(x), "middle") for x in shown]
        parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, self.x_title, "middle", "title"))
        middle = (_TOP + HEIGHT - _BOTTOM) / 2
        parts.append(
            f'<text class="title" text-anchor="middle" transform="translate(13 {middle:.0f}) rotate(-90)">'
            f"{escape(self.y_title)}</text>"
        )
        for name, y in self.ceilings:
            parts.append(f'<line class="ceiling" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>')
            parts.append(_text(_LEFT + 6, up(y) - 5, name, "start", "ceiling-name"))
        for line in self.lines:
            parts += self._curve(line, across, up)
        return "".join([*parts, "</svg>"])

    def _curve(self, line: ChartLine, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
        style = f"c{line.colour}" + (" dashed" if line.dashed else "")
        places = [(across(x), up(y), x, y) for x, y in line.points if y > 0]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _, _ in places)
        parts = [f'<polyline class="{style}" points="{path}"/>']
        for px, py, x, y in places:
            tip = escape(f"{line.name}, {self.x_text(x)}: {self.y_text(y)}")
            parts.append(f'<circle class="{style}" cx="{px:.1f}" cy="{py:.1f}" r="3.5"><title>{tip}</title></circle>')
        return parts

    def legend(self) -> str:
        """The curves' names beside a sample of their line, as HTML."""
        items = []
        for line in self.lines:
            style = f"c{line.colour}" + (" dashed" if line.dashed else "")
            sample = f'<svg viewBox="0 0 26 10" class="sample"><polyline class="{style}" points="1,5 25,5"/></svg>'
            items.append(f"<span>{sample}{escape(line.name)}</span>")
        return f'<div class="legend">{"".join(items)}</div>'


def _text(x: float, y: float, text: str, anchor: str, style: str = "tick") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between the bounds; only 1 where that would be too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return fine if len(fine) <= 9 else [y for y in fine if round(math.log10(y), 9) % 1 == 0]
