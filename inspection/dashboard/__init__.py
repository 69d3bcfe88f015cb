"""`acker dashboard`: a topology in the browser, read-only.

- `source`: the protocol of the figures; `kafka_source`: those of a cluster.
- `recent`: failures and dead letters, from the ends of their topics; `tree_searches`: bounded searches for trees.
- `access`: method, host name, token, and security headers.
- `pages`: JSON, events and files; `questions`: blocking requests in threads; `server`: the thread that serves them.
- `static/`: the page: HTML, CSS and JavaScript as they are served.
"""

from inspection.dashboard.server import DashboardServer, ServedAt
from inspection.dashboard.source import Source
from inspection.errors import DashboardError

__all__ = ["DashboardError", "DashboardServer", "ServedAt", "Source"]
