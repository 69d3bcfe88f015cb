"""Writes the text into the topic that the spout of a word count reads: `python -m examples.compose.text`."""

import os
import sys

from acker_cli.console import standard_output
from acker_cli.demo.progress import write_text
from acker_cli.demo.word_count import Parameters, text_topic
from acker_cli.interruption import Interrupted, interruptible
from acker_cli.settings.layers import load


def main() -> int:
    loaded, parameters = load(), Parameters.from_environment(os.environ)
    try:
        with interruptible():
            written = write_text(loaded.cluster(), parameters, loaded.settings.topics.replication_factor)
    except Interrupted as interrupted:
        return interrupted.exit_code
    standard_output().print(f"wrote {written:,} lines to {text_topic(parameters.name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
