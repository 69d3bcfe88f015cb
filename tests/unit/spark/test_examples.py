"""The state of the Spark examples."""

from pathlib import Path

from examples.austen_sentiment.totals import TotalsFile, read_totals, totals_directory


def test_a_position_counts_once_in_any_aggregate(tmp_path: Path) -> None:
    directory = totals_directory(tmp_path)
    file = TotalsFile(directory, 0)
    assert file.add("Emma", 1, "handsome", 2.2, [9_000_002, 9_010_004]) == 2
    file.close()
    # Its process was killed before it acked: the first line comes again, alone, and then with another one.
    file = TotalsFile(directory, 0)
    assert file.add("Emma", 1, "handsome", 2.2, [9_000_002]) == 0
    assert file.add("Emma", 1, "handsome", 2.2, [9_000_002, 9_020_000]) == 1
    file.close()
    assert [(total.word, total.times) for total in read_totals(tmp_path)] == [("handsome", 3)]
