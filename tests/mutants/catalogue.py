"""All mutants."""

from tests.mutants import acker, emitting, inputs, progress, spark, wire
from tests.mutants.patches import MUTANTS

__all__ = ["MUTANTS", "acker", "emitting", "inputs", "progress", "spark", "wire"]
