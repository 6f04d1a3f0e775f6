"""Being asked to stop: Ctrl-C and preemption end a sweep at the next safe moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """A sweep was asked to stop and has saved what it had.

    Attributes:
      signal: which one asked.
    """

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.signal = number


class StopRequest:
    """Whether someone asked; `number` is the signal that did, 0 before."""

    def __init__(self):
        self.number = 0

    def __bool__(self) -> bool:
        return self.number != 0

    def leave_if_asked(self) -> None:
        """Raise Stopped where nothing is left to save."""
        if self.number:
            raise Stopped(self.number, "stopped; what was done is safe, and --resume goes on from there")


@contextlib.contextmanager
def listening() -> Iterator[StopRequest]:
    """Within, the first SIGINT or SIGTERM sets the request; a second one does what it always does. Only the main thread can listen."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number, frame):
        del frame
        request.number = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in _SIGNALS:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
