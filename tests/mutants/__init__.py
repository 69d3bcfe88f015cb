"""Deliberate faults: mutants of the product, and for each one a test of `make test` fails.

    python -m tests.mutants                    each mutant against the test that is known to find it
    python -m tests.mutants --find [NAME ...]  each mutant against all plain tests, and prints the failing ones
    python -m tests.mutants --list             prints the mutants with their tests

- `patches`: replaces functions and methods of the product
- `acker`, `emitting`, `inputs`, `wire`, `spark`: the mutants
- `plugin`: the plugin of pytest that applies one, for `pytest -p tests.mutants.plugin --mutant NAME`
- `__main__`: the check

A mutant is a function that replaces a function or a method of the product by one with a mistake. It names what a
refactoring keeps, and raises if that no longer exists. `docs/contributing/checking-the-tests.md` shows how to add one.
"""
