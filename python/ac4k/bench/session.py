"""One run of `ac4k bench`: measures its rows one by one and keeps what it has.

The JSON file is replaced as rows are measured and says whether it is complete, so an interrupted
run leaves the rows it came to, and so does one that a kernel takes down with it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from signal import Signals
from typing import Any

from .._console import note, print_pairs, progress
from ..environment import environment, environment_lines, gpus
from .arrays import Arrays
from .case import Special
from .check import WrongResultError
from .inputs import op_named, why_not
from .interruption import Interruption
from .report import json_report, print_configs, print_results, write_json
from .runner import Result, Row, run_row
from .settings import Settings

STDOUT = "-"
_SECONDS_BETWEEN_SAVES = 10.0  # a report of 600 rows takes 0.2 s to write


class Session:
    def __init__(
        self,
        rows: Sequence[Row],
        specials: Sequence[Special],
        arrays: Arrays,
        settings: Settings,
        *,
        json_target: str | None = None,
        finish_row: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self._rows = rows
        self._specials = specials
        self._arrays = arrays
        self._settings = settings
        self._target = json_target
        self._finish_row = finish_row  # adds what is known from elsewhere
        self._environment = environment()
        self._results: list[Result] = []
        self._special_results: dict[str, Any] = {}
        self._failures: list[str] = []
        self._skipped: set[str] = set()
        self._complete = False
        self._saved_at: float | None = None
        self._written = False
        self._interruption = Interruption()

    def run(self) -> int:
        """Measures everything and reports it; the exit status of the command."""
        with self._interruption:
            try:
                self._measure()
            except KeyboardInterrupt:
                self._interruption.signal = self._interruption.signal or Signals.SIGINT
            self._interruption.hold()
            self._environment["gpus_after"] = gpus()
            self._save()
        self._show()
        return self._interruption.exit_status or (1 if self._failures else 0)

    def _measure(self) -> None:
        with progress("bench", len(self._rows)) as step:
            for row in self._rows:
                step(row.text)
                self._measure_row(row)
                if self._interruption.signal is not None:
                    return  # it was raised where Python drops exceptions, in a finaliser
                self._save_now_and_then()
        for case in self._specials:
            with self._failures_of(case.name):
                self._special_results[case.name] = case.run(self._settings)
        self._complete = self._interruption.signal is None

    def _measure_row(self, row: Row) -> None:
        missing = why_not(op_named(row.case.op), row.dtype, self._arrays, row.variant)
        if missing is not None:
            text = f"ac4k bench: skipped {row.title} {row.dtype.name}: {missing}"
            if text not in self._skipped:  # one line for all sizes
                self._skipped.add(text)
                note(text)
            return
        with self._failures_of(row.text):
            result = run_row(row, self._arrays, self._settings)
            self._finish_row(result)
            self._results.append(result)

    @contextmanager
    def _failures_of(self, what: str) -> Iterator[None]:
        """One row must not cost the others."""
        try:
            yield
        except WrongResultError as error:
            self._failures.append(f"WRONG RESULT: {error}")
        except (RuntimeError, MemoryError) as error:
            self._failures.append(f"{what}: {error}")
        except Exception as error:
            self._failures.append(f"{what}: {type(error).__name__}: {error}")

    def _save_now_and_then(self) -> None:
        now = time.monotonic()
        due = self._saved_at is None or now - self._saved_at > _SECONDS_BETWEEN_SAVES
        if due and self._results and self._target != STDOUT:
            self._save()
            self._saved_at = time.monotonic()

    def _save(self) -> None:
        """Nothing measured replaces nothing: an older file stays."""
        if self._target is None or not (self._results or self._complete):
            return
        signal = self._interruption.signal
        report = json_report(
            self._results,
            self._special_results,
            self._environment,
            ["ac4k", *sys.argv[1:]],
            rows_asked=len(self._rows),
            complete=self._complete,
            failures=self._failures,
            stopped_by=None if signal is None else signal.name,
        )
        try:
            write_json(report, self._target)
        except OSError as error:  # the table is still to come
            why = f"--json: {error}"
            if why not in self._failures:
                note(f"ac4k bench: {why}")  # at once: there may be time to mend it
                self._failures.append(why)
        else:
            self._written = True

    def _show(self) -> None:
        """What people read; the file is written."""
        if self._target != STDOUT:
            print_results(self._results)
            print_configs(self._results)
            for case in self._specials:
                if case.name in self._special_results:
                    case.show(self._special_results[case.name])
            print_pairs(environment_lines(self._environment))
        for failure in self._failures:
            note(f"ac4k bench: {failure}")
        signal = self._interruption.signal
        if signal is not None and not self._complete:
            measured = f"{len(self._results)} of {len(self._rows)} rows"
            note(f"ac4k bench: stopped by {signal.name}, incomplete: {measured} measured")
        if self._target not in (None, STDOUT):
            note(f"ac4k bench: {'wrote' if self._written else 'did not write'} {self._target}")
