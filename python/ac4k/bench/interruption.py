"""Ctrl-C and SIGTERM end a run early, but not before it has kept what it measured."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Within a `with` block the first signal raises KeyboardInterrupt, and those after it do
    nothing: `timeout`, for one, sends its signal twice, and the second must not meet the writing
    of what the first has left."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_status(self) -> int:
        """As shells give it; 0 when nothing came."""
        return 0 if self.signal is None else 128 + self.signal

    def hold(self) -> None:
        """Signals do nothing from here to the end of the block."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def __enter__(self) -> Interruption:
        # Python lets the main thread alone set handlers. A signal that is ignored stays so: a shell
        # ignores Ctrl-C for what runs in its background.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._raise)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.hold()
        self.signal = signal.Signals(number)
        raise KeyboardInterrupt
