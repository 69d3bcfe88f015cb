"""`acker topologies pause`, `resume`, `drain` and `stop`."""

from typing import TYPE_CHECKING, Any, Final

import typer

from acker_cli.commands.options import JSON, argument, command, flag, option
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from inspection.observer import Observer
    from tuple_tree.control import ControlState
    from tuple_tree.manifest import Manifest

_NAME: Final = argument("NAME", "The topology's name in acker.topologies.")
_TIMEOUT: Final = option("SECONDS", "The maximum time for --wait.", default=300.0, min=0.0)
_WAIT: Final = flag("--wait", "Wait until it is done; exit code 1 if it is not within --timeout.")
_LOOK_SECONDS: Final = 0.25


@command(
    "pause",
    ("acker topologies pause word-count", "its spouts emit nothing until acker topologies resume"),
    ("acker topologies pause word-count --wait", "and wait until all emitted tuples are processed"),
)
def pause(
    loaded: LoadedSettings,
    name: str = _NAME,
    wait: bool = _WAIT,
    timeout: float = _TIMEOUT,
    json_: bool = JSON,
) -> None:
    """Pause a topology: its spouts emit nothing, and emitted tuples are processed.

    Messages that fail wait for acker topologies resume. The state is kept in Kafka, so processes that are started
    meanwhile emit nothing either.
    """
    _change(loaded, name, "paused", timeout if wait else None, as_json=json_)


@command("resume", ("acker topologies resume word-count", "after pause, drain or stop"))
def resume(loaded: LoadedSettings, name: str = _NAME, json_: bool = JSON) -> None:
    """Resume a topology after pause, drain or stop: its spouts emit again.

    After stop, a waiting acker run starts its processes; start it again if it has ended.
    """
    _change(loaded, name, "running", None, as_json=json_)


@command(
    "drain",
    ("acker topologies drain word-count --wait", "until nothing is open, before a new version is started"),
    ("acker topologies drain word-count --wait --timeout 60", "for a minute at most; prints what is still open"),
)
def drain(
    loaded: LoadedSettings,
    name: str = _NAME,
    wait: bool = _WAIT,
    timeout: float = _TIMEOUT,
    json_: bool = JSON,
) -> None:
    """Drain a topology: its spouts emit no new messages; open messages are processed, and failed ones emitted again.

    It is drained when no tree is open, all emitted messages are committed as done, and the inboxes of its bolts have no
    lag.
    """
    _change(loaded, name, "draining", timeout if wait else None, as_json=json_)


@command(
    "stop",
    ("acker topologies stop word-count --wait", "drain it, then end the processes that acker run has started"),
    ("acker topologies stop word-count", "end the processes without draining: open messages are emitted again later"),
)
def stop(
    loaded: LoadedSettings,
    name: str = _NAME,
    wait: bool = flag("--wait", "Drain the topology first, and wait until its processes have ended."),
    timeout: float = _TIMEOUT,
    json_: bool = JSON,
) -> None:
    """Stop a topology: acker run ends its processes, with exit code 0.

    An acker run that is started later waits for acker topologies resume.
    """
    if wait:
        _change(loaded, name, "draining", timeout, as_json=False, quiet=json_)
    _change(loaded, name, "stopped", timeout if wait else None, as_json=json_)


def _change(
    loaded: LoadedSettings,
    name: str,
    state: "ControlState",
    seconds: float | None,
    *,
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Writes the control record, and waits until the processes have reached the state where `seconds` are given."""
    import getpass
    import socket

    from acker_cli.console import print_json, standard_error, standard_output
    from kafka_clients.catalogue import Catalogue
    from tuple_tree.control import Control

    kafka = loaded.cluster()
    with standard_error().status("asking the cluster …"):
        catalogue = Catalogue(kafka)
        manifest = catalogue.manifest(name)
        catalogue.set_control(name, Control(state, f"{getpass.getuser()}@{socket.gethostname()}"))
    if seconds is None:
        if as_json:
            print_json({"topology": name, "state": state})
        else:
            standard_output().print(f"requested state of {name}: {state}")
        return
    took, left = _await(kafka, manifest, state, seconds)
    if as_json:
        print_json({"topology": name, "state": state, "is_done": not left, "seconds": round(took, 1), "left": left})
    elif not left and not quiet:
        standard_output().print(f"{name} is {_DONE[state]}, after {took:.1f} s")
    if left:
        for line in left if not as_json else ():
            standard_error().print(line)
        standard_error().print(not_done(name, state, took), style="red")
        raise typer.Exit(1)


_DONE: Final = {"paused": "paused, and nothing is open", "draining": "drained", "stopped": "stopped"}
_NOT_DONE: Final = {"paused": "still has open tuples", "draining": "is not drained", "stopped": "still has processes"}


def not_done(name: str, state: "ControlState", took: float) -> str:
    """The error where the requested state is not reached in time."""
    return (
        f"{name} {_NOT_DONE[state]} after {took:.0f} s; the requested state stays {state}: repeat this command to wait "
        "longer, or acker topologies resume"
    )


def _await(kafka: Any, manifest: "Manifest", state: "ControlState", seconds: float) -> tuple[float, list[str]]:
    """Waits until all is done; returns how long it took, and what is left if the time is over."""
    import time
    from contextlib import closing

    from acker_cli.console import standard_error
    from inspection.observer import Observer

    began = time.monotonic()
    with (
        standard_error().status(f"{manifest.topology}: {state} …") as status,
        closing(Observer(kafka, manifest)) as seen,
    ):
        seen.read_statistics()
        while left := _left(seen, state):
            took = time.monotonic() - began
            if took >= seconds:
                return took, left
            status.update(f"{manifest.topology}: {'; '.join(left)}")
            seen.follow(_LOOK_SECONDS)
    return time.monotonic() - began, []


def _left(seen: "Observer", state: "ControlState") -> list[str]:
    from inspection.drain import holding_up, left_in_bolts, left_in_sources, left_in_spouts, running

    snapshot = seen.snapshot()
    if state == "stopped":
        return running(snapshot)
    if left := left_in_spouts(snapshot, state):
        return left + holding_up(snapshot)
    if state == "draining":
        unfinished = seen.read_unfinished()
        if seen.problem:
            return [seen.problem]
        if left := left_in_sources(unfinished, snapshot):
            return left
    seen.read_lags()  # those from before may be older than the last tree
    return [seen.problem] if seen.problem else left_in_bolts(seen.snapshot())
