"""The count bolt of the word count for Storm's multilang protocol, by pystorm; Storm starts a process for each task.

It counts in memory. A tuple of the stream `end` names the directory to write the counts to.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from pystorm import Bolt


class Count(Bolt):
    def initialize(self, _configuration: Any, _context: Any) -> None:
        self.counts: Counter[str] = Counter()

    def process(self, tuple_: Any) -> None:
        if tuple_.stream == "end":
            rows = "".join(f"{word} {count}\n" for word, count in self.counts.items())
            Path(tuple_.values[0], f"count-{os.getpid()}").write_text(rows)
        else:
            self.counts[tuple_.values[0]] += 1


if __name__ == "__main__":
    Count().run()
