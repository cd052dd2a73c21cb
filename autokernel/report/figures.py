"""The report's plots, as SVG text by matplotlib: the same ledgers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from autokernel.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"eager": "#3b6fb6", "compile": "#c8792b", "best": "#555555"}
NAMES = {"eager": "against eager", "compile": "against torch.compile", "best": "against the better of both"}
DECIDED = {"kept": ("#2f8f4e", "o", "kept"), "reverted": ("#9a9a9a", "o", "right, not faster"), "refused": ("#c0392b", "x", "refused")}
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "autokernel", "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False,
         "axes.spines.right": False}
WIDTH_IN, ROW_IN = 9.0, 0.2


def styled(draw: Callable[..., Figure]) -> Callable[..., str]:
    """What `draw` draws, in the report's style, as SVG."""
    @wraps(draw)
    def drawn(*arguments: Any) -> str:
        import matplotlib

        out = io.StringIO()
        with matplotlib.rc_context(STYLE):
            draw(*arguments).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        return text[text.index("<svg"):]

    return drawn


@styled
def speedups(rows: Sequence[Row]) -> Figure:
    """A line a problem, the fastest on top: the final speedups with their intervals on a logarithmic axis, 1.0 marked."""
    timed = sorted((row for row in rows if row.eager is not None), key=lambda row: row.eager.speedup if row.eager else 0.0)
    figure = _figure(WIDTH_IN, 1.2 + ROW_IN * len(timed))
    axes = figure.add_subplot()
    for against, shift in (("compile", -0.15), ("eager", 0.15)):
        made = [(place + shift, row.speedups[against]) for place, row in enumerate(timed) if against in row.speedups]
        if made:
            axes.hlines([y for y, _ in made], [c.low for _, c in made], [c.high for _, c in made], color=COLOURS[against], linewidth=1)
            axes.plot([c.speedup for _, c in made], [y for y, _ in made], "o", markersize=4, color=COLOURS[against], label=NAMES[against])
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(timed)), [row.uid for row in timed])
    axes.set_ylim(-0.7, len(timed) - 0.3)
    _logarithmic(axes, "x", "{:g}x")
    shown = [made for row in timed for made in row.speedups.values()]
    if shown:  # one interval that reaches far out would press all others together
        edge = 1.6 * max(made.speedup for made in shown)
        axes.set_xlim(0.9 * min(made.low for made in shown), edge)
        for place, row in enumerate(timed):
            beyond = [made.high for made in row.speedups.values() if made.high > edge]
            if beyond:
                axes.annotate(f"to {max(beyond):.3g}x", (edge, place), xytext=(0, 4), textcoords="offset points", ha="right", fontsize=7)
    axes.set_xlabel("speedup; the line is the interval")
    axes.legend(loc="lower right", frameon=False)
    return figure


@styled
def fast_p(score: Mapping[str, Any]) -> Figure:
    """The share of the level's scorable problems that are right and faster than p, by opponent, at the scored thresholds."""
    figure = _figure(WIDTH_IN, 2.8)
    axes = figure.add_subplot()
    for against, opponent in score["against"].items():
        points = [(float(p), share) for p, share in opponent["fast_p"].items() if share is not None]
        if points:
            axes.plot([p for p, _ in points], [100.0 * share for _, share in points], "o:" if against == "best" else "o-", markersize=4,
                      color=COLOURS.get(against), label=NAMES.get(against, against))
    axes.set_xlabel("p")
    axes.set_ylabel("right and faster than p, %")
    axes.set_ylim(bottom=0)
    if score["against"]:
        axes.legend(loc="upper right", frameon=False)
    return figure


@styled
def progress(row: Row) -> Figure:
    """One problem's search: each try's time, what was kept, the best so far, and the opponents' times."""
    from matplotlib.ticker import MaxNLocator

    tried = row.searched
    figure = _figure(WIDTH_IN, 2.4)
    axes = figure.add_subplot()
    times = {trial.iteration: trial.evaluation.times_ms.get("candidate") for trial in tried}
    best: list[tuple[int, float]] = []
    for trial in tried:
        time = times[trial.iteration]
        if trial.kept and time is not None:
            best.append((trial.iteration, time))
    if best:
        axes.step([i for i, _ in best] + [tried[-1].iteration], [t for _, t in best] + [best[-1][1]], where="post", linewidth=1,
                  color=DECIDED["kept"][0])
    for name, (colour, marker, label) in DECIDED.items():
        shown = [(trial.iteration, time) for trial in tried if (time := times[trial.iteration]) is not None and _decision(trial) == name]
        if shown:
            axes.plot([i for i, _ in shown], [t for _, t in shown], marker, linestyle="", markersize=5, color=colour, label=label)
    untimed = [trial.iteration for trial in tried if times[trial.iteration] is None]
    if untimed:
        axes.plot(untimed, [1.0] * len(untimed), "x", color=DECIDED["refused"][0], markersize=5, clip_on=False,
                  transform=axes.get_xaxis_transform(), label="refused before it was timed")
    for against, made in row.speedups.items():
        axes.axhline(made.opponent.median_ms, color=COLOURS[against], linewidth=1, linestyle="--", label=against)
    _logarithmic(axes, "y", "{:g}")
    axes.set_xlabel("try")
    axes.set_ylabel("ms a call")
    axes.set_xlim(0.5, max((trial.iteration for trial in tried), default=1) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def _decision(trial: Any) -> str:
    return str(trial.decision) if trial.evaluation.accepted else "refused"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _logarithmic(axes: Any, axis: str, text: str) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axes, f"set_{axis}scale")("log")
    which = getattr(axes, f"{axis}axis")
    which.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    which.set_major_formatter(FuncFormatter(lambda value, _: text.format(value)))
    which.set_minor_formatter(NullFormatter())
