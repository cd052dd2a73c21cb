"""Numbers in, numbers out: what a level's results come to. Imports neither torch nor any sibling."""

from __future__ import annotations

from scorer.errors import ScorerError
from scorer.formulas import THRESHOLDS, fast_p, geometric_mean
from scorer.level import LevelScore, OpponentScore, score_level
from scorer.results import BEST, STATUSES, ProblemResult
from scorer.shards import Merged, Shard, merge

__all__ = ["BEST", "STATUSES", "THRESHOLDS", "LevelScore", "Merged", "OpponentScore", "ProblemResult", "ScorerError", "Shard",
           "fast_p", "geometric_mean", "merge", "score_level"]
