"""The plot of speedups by operation and shape, as SVG text: drawn by hand, so that the same figures give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 760, 34, 300, 70, 34, 44
COLOURS = {"eager": "#3b6fb6", "compile": "#c8792b"}


@dataclass(frozen=True)
class Bar:
    """One speedup with its interval."""

    label: str  # operation and shape
    against: str
    speedup: float
    low: float
    high: float


def speedup_plot(bars: Sequence[Bar], title: str) -> str:
    """One row a bar on a common axis from 0, the interval as a line, 1.0 marked."""
    most = _nice(max([1.25, *(bar.high for bar in bars)]))
    height = TOP + ROW * len(bars) + BOTTOM
    span = WIDTH - LEFT - RIGHT

    def x(value: float) -> str:
        return f"{LEFT + span * max(value, 0.0) / most:.1f}"

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>', f'<text x="12" y="20" font-size="14">{escape(title)}</text>']
    for step in range(5):
        value = most * step / 4
        lines.append(f'<line x1="{x(value)}" x2="{x(value)}" y1="{TOP}" y2="{height - BOTTOM}" stroke="#dddddd"/>'
                     f'<text x="{x(value)}" y="{height - BOTTOM + 16}" text-anchor="middle">{value:.3g}x</text>')
    for row, bar in enumerate(bars):
        y = TOP + ROW * row
        lines.append(f'<text x="{LEFT - 8}" y="{y + 21}" text-anchor="end">{escape(bar.label)}</text>'
                     f'<rect x="{LEFT}" y="{y + 8}" width="{float(x(bar.speedup)) - LEFT:.1f}" height="16" fill="{_colour(bar.against)}"/>'
                     f'<line x1="{x(bar.low)}" x2="{x(bar.high)}" y1="{y + 16}" y2="{y + 16}" stroke="black" stroke-width="2"/>'
                     f'<text x="{float(x(bar.high)) + 6:.1f}" y="{y + 21}">{bar.speedup:.3g}x</text>')
    lines.append(f'<line x1="{x(1.0)}" x2="{x(1.0)}" y1="{TOP}" y2="{height - BOTTOM}" stroke="black" stroke-dasharray="4 3"/>')
    key = LEFT
    for against in dict.fromkeys(bar.against for bar in bars):
        lines.append(f'<rect x="{key}" y="{height - 20}" width="12" height="12" fill="{_colour(against)}"/>'
                     f'<text x="{key + 18}" y="{height - 10}">against {escape(against)}</text>')
        key += 140
    lines.append(f'<text x="{key}" y="{height - 10}">lines are intervals</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _colour(against: str) -> str:
    return COLOURS.get(against, "#777777")


def _nice(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 times a power of ten from `value` up."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)
