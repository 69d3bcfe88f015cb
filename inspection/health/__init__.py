"""The health of a running topology: one model for `acker doctor`, `acker top`, the dashboard, `/health` and alerts.

Pure functions from an observation to findings; the findings of a cause precede those of its effects.

- `observation`: the facts about a topology at a moment; `lags`: lags over time, as changes.
- `limits`: the thresholds, which `deploy/alerts.yml` has too; `findings`: the results of checks.
- `processes`, `calls`, `states`, `lag_checks`, `messages`: the checks. `verdict`: all checks, in order.
"""
