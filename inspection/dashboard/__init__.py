"""`acker dashboard`: a topology in the browser, read-only.

- `source`: the figures of a cluster, and bounded searches for trees and keys of states.
- `overview`: the state of each topology.
- `message_search`: a message of a spout's source by its key or position.
- `recent`: failures and dead letters, from the ends of their topics.
- `pages`: JSON, events and files.
- `server`: the server of these; access control by method, host name and token, and security headers.
- `static/`: the page: HTML, CSS and JavaScript as they are served.
"""

from inspection.dashboard.server import DashboardServer
from inspection.dashboard.source import Source

__all__ = ["DashboardServer", "Source"]
