"""The health of a running topology: one model for `acker doctor`, `acker top`, the dashboard, `/health` and alerts.

Pure: an observation in, findings out, those of a cause before those of its effects.

- `observation`: what is known of a topology at a moment; `lags`: lags over time, as backlogs.
- `limits`: the thresholds, which `deploy/alerts.yml` has too; `findings`: what a check yields.
- `processes`, `calls`, `states`, `backlogs`, `messages`: the checks. `verdict`: all of them, in order.
"""
