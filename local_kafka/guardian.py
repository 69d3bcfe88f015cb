"""The process between us and the broker, which ends the broker when the process that started it has ended.

Arguments: the parent's process id, seconds from SIGTERM to SIGKILL, an inherited descriptor to pass on (a file lock), a
directory to remove when the parent has ended (or an empty string), and the command.

It starts the command, prints its process id on standard output, and ends with the command's exit status. SIGTERM asks
the command to end, SIGUSR1 kills it, and the end of standard input, which comes with the end of the parent, does one
after the other. It is a script of the standard library alone: it starts in a few milliseconds and does not depend on
the parent's import path.

    parent  ──signals──▶  guardian  ──signals──▶  java
       dies: end of stdin, or another parent         │
                            dies: PR_SET_PDEATHSIG ──┘ (Linux; elsewhere a killed guardian leaves java to the user)
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_STDIN = 0
_PARENT_CHECK_SECONDS = 1.0


def main() -> int:
    """Run the command until it ends; return its exit status, 128 and the signal's number where a signal ended it."""
    parent, grace, lock, temporary, *command = sys.argv[1:]
    # Java holds the lock too, so the data directory stays locked for as long as anything may write to it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # The log; our own standard output is the parent's, and closed after one line.
        pass_fds=(int(lock),),
        preexec_fn=_tie_to_this_process(),
    )
    signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
    signal.signal(signal.SIGUSR1, lambda _number, _frame: process.kill())
    with contextlib.suppress(BrokenPipeError):  # The parent has died already, which the thread will detect.
        os.write(1, f"{process.pid}\n".encode())

    orphaned = threading.Event()
    threading.Thread(target=_end_with, args=(int(parent), process, float(grace), orphaned), daemon=True).start()
    status = process.wait()
    if temporary and (orphaned.is_set() or os.getppid() != int(parent)):
        shutil.rmtree(temporary, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _tie_to_this_process() -> Callable[[], None] | None:
    """Make a function that has the kernel kill the calling process when the one that started it dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    guardian = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # It died before the line above: the signal will not come any more.
            os._exit(1)

    return tie


def _end_with(parent: int, process: subprocess.Popen[bytes], grace: float, orphaned: threading.Event) -> None:
    # Forked children of the parent have the pipe's other end as well and may outlive it, so the end of the input is not
    # enough: the parent's process id is checked, too. Nothing is ever written to the pipe.
    while os.getppid() == parent and not select.select([_STDIN], [], [], _PARENT_CHECK_SECONDS)[0]:
        pass
    orphaned.set()
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main())
