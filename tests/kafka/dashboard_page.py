"""What the page has to show of a snapshot, and how to ask it what it shows.

Written from the contract and not from the page's code, so that each checks the other.
"""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

UNKNOWN: Final = "\N{EN DASH}"


def short(value: float | None) -> str:
    """A rate, or milliseconds, as the page has to write it."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    digits = "0.01" if abs(value) < 10 else "0.1" if abs(value) < 100 else "1"
    return f"{Decimal(value).quantize(Decimal(digits), ROUND_HALF_UP):,}"


def seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{Decimal(value).quantize(Decimal('0.1') if value < 100 else Decimal(1), ROUND_HALF_UP):,}"


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def text(value: str | None) -> str:
    return value or UNKNOWN


def quantiles(latency: dict[str, float] | None) -> str:
    return UNKNOWN if latency is None else f"{short(latency['p50'])} / {short(latency['p99'])}"


def expected(snapshot: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The tables of the page, as they follow from the JSON."""
    return {
        "components-table": [
            {
                "name": one["name"],
                "kind": one["kind"],
                "tasks": f"{one['owned_tasks']}/{one['tasks']}",
                **{name: short(one[name]) for name in one if name.endswith("_per_second")},
                "failed": count(sum(one["failed"].values())),
                **{
                    name: count(one[name])
                    for name in ("processes", "pending", "lag", "errors", "dead_letters", "undelivered")
                },
                **{name: quantiles(one[name]) for name in one if name.endswith("_latency")},
                "last_error": text(one["last_error"]),
            }
            for one in snapshot["components"]
        ],
        "edges-table": [
            {
                **{name: one[name] for name in ("source", "stream", "target", "grouping")},
                "tuples_per_second": short(one["tuples_per_second"]),
            }
            for one in snapshot["edges"]
        ],
        "partitions-table": [
            {
                "partition": count(one["partition"]),
                "owner": text(one["owner"]),
                "pending": count(one["pending"]),
                "orphans": count(one["orphans"]),
                "oldest_seconds": seconds(one["oldest_seconds"]),
                "oldest_tree": UNKNOWN if one["pending"] == 0 else "show",
                "clock_lag_seconds": seconds(one["clock_lag_seconds"]),
                "rebuild": UNKNOWN
                if one["rebuilding"] is None
                else f"{count(one['rebuild_left'])} left"
                if one["rebuilding"]
                else "no",
            }
            for one in snapshot["acker"]
        ],
        "workers-table": [
            {
                "name": one["name"],
                "partitions": ", ".join(map(str, one["partitions"])) or UNKNOWN,
                "entries_per_second": short(one["entries_per_second"]),
                "seen_seconds_ago": seconds(one["seen_seconds_ago"]),
            }
            for one in snapshot["workers"]
        ],
    }


SHOWN = """() => {
  const rows = (id) => [...document.getElementById(id).tBodies[0].rows].map((row) =>
    Object.fromEntries([...row.cells].map((cell) => [cell.dataset.figure, cell.textContent])));
  const tiles = [...document.querySelectorAll("[data-tile]")];
  const ids = ["components-table", "edges-table", "partitions-table", "workers-table"];
  return {
    at: Number(document.body.dataset.at),
    tables: Object.fromEntries(ids.map((id) => [id, rows(id)])),
    tiles: Object.fromEntries(tiles.map((tile) => [tile.dataset.tile, tile.textContent])),
  };
}"""


# Elements with text that stands out less from its ground than WCAG 2 wants (4.5), each with the ratio.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *:not(svg *)")]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .filter((one) => one.offsetParent)
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
      return [one.tagName + "#" + one.id + "." + one.className, (a + 0.05) / (b + 0.05)];
    })
    .filter(([, contrast]) => contrast < 4.5);
}"""
