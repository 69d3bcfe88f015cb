"""All mutants."""

from tests.mutants import acker, emitting, inputs, spark, wire
from tests.mutants.patches import MUTANTS

__all__ = ["MUTANTS", "acker", "emitting", "inputs", "spark", "wire"]
