"""`acker dashboard`: a topology in the browser, read-only.

- `source`: the figures of a cluster, and bounded searches for trees and keys of states.
- `message_search`: a message of a spout's source by its key or position.
- `recent`: failures and dead letters, from the ends of their topics.
- `pages`: JSON, events and files.
- `server`: the thread that serves them; access control by method, host name and token, and security headers.
- `static/`: the page: HTML, CSS and JavaScript as they are served.
"""

from inspection.dashboard.server import DashboardServer, ServedAt
from inspection.dashboard.source import Source
from inspection.errors import DashboardError

__all__ = ["DashboardError", "DashboardServer", "ServedAt", "Source"]
