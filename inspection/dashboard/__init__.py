"""`acker dashboard`: a topology in the browser, read-only.

| module | one thing |
|---|---|
| `source` | the protocol behind which the figures come |
| `kafka_source` | the figures of a cluster, followed in Kafka |
| `recent` | failures and dead letters, from the ends of their topics |
| `tree_searches` | one tree, found in Kafka within bounds |
| `access` | who may look: method, host name and token; the security headers of every answer |
| `pages`, `questions` | the JSON, the events and the files; blocking requests in threads |
| `server` | a thread that serves them |
| `static/` | the page: HTML, CSS and JavaScript as they are served |
"""

from inspection.dashboard.server import DashboardServer, ServedAt
from inspection.dashboard.source import Source
from inspection.errors import DashboardError

__all__ = ["DashboardError", "DashboardServer", "ServedAt", "Source"]
