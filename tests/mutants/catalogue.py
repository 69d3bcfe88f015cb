"""All mutants."""

from tests.mutants import acker, chains, emitting, inputs, progress, spark, steps, wire
from tests.mutants.patches import MUTANTS

__all__ = ["MUTANTS", "acker", "chains", "emitting", "inputs", "progress", "spark", "steps", "wire"]
