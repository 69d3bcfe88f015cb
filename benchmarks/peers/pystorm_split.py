"""The split bolt of the word count for Storm's multilang protocol, by pystorm; Storm starts a process for each task."""

from typing import Any

from pystorm import Bolt


class Split(Bolt):
    def process(self, tuple_: Any) -> None:
        for word in tuple_.values[0].split():
            self.emit([word])


if __name__ == "__main__":
    Split().run()
