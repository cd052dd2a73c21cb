"""When the search leaves a problem: the move-on rules, each of which can be off."""

from __future__ import annotations

from dataclasses import dataclass

from autokernel.errors import UsageError
from autokernel.standing import Standing


@dataclass(frozen=True)
class MoveOn:
    """The move-on rules; None turns one off. Defaults are those of the original AutoKernel, which has none for `closed`."""

    reverts: int | None = 5  # candidates reverted in a row
    roofline: float | None = 0.9  # share of the roofline that the best one reaches
    hours: float | None = 2.0  # wall time on the problem, over all sessions
    speedup: float | None = 2.0  # of the best one against eager
    closed: float | None = 0.95  # share of the roofline that eager reaches itself: nothing is left to find

    def __post_init__(self) -> None:
        for name in ("reverts", "roofline", "hours", "speedup", "closed"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"the move-on rule '{name}' must be above 0, not {value}.", hint="Pass a positive number, or turn it off.")

    def stops(self, standing: Standing) -> str | None:
        """The name of the first rule that says to move on, or None."""
        if self.reverts is not None and standing.reverts_in_a_row >= self.reverts:
            return "reverts"
        if self.roofline is not None and standing.roofline is not None and standing.roofline >= self.roofline:
            return "roofline"
        if self.closed is not None and standing.eager_roofline is not None and standing.eager_roofline >= self.closed:
            return "closed"
        if self.speedup is not None and standing.speedup is not None and standing.speedup >= self.speedup:
            return "speedup"
        if self.hours is not None and standing.seconds >= 3600.0 * self.hours:
            return "hours"
        return None
