"""`acker dashboard`: a topology in the browser, read-only.

| module | one thing |
|---|---|
| `source` | the protocol behind which the figures come |
| `kafka_source` | the figures of a cluster, followed in Kafka |
| `recent` | the last records of topics, and what they say: failures, dead letters |
| `source_messages` | which message of its source a tree of a `KafkaSpout` belongs to |
| `findings` | what the doctor found last |
| `tree_searches` | one tree, found in Kafka within bounds |
| `access` | who may look: the method, the name that was asked for, the token; and what every answer tells the browser |
| `pages` | the JSON, the events and the files |
| `questions` | asking what blocks, without waiting for it in the end |
| `server` | a thread that serves them |
| `static/` | the page: HTML, CSS and JavaScript as they are served |
"""

from inspection.dashboard.server import DashboardServer, ServedAt
from inspection.dashboard.source import Source
from inspection.errors import DashboardError

__all__ = ["DashboardError", "DashboardServer", "ServedAt", "Source"]
