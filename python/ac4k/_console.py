"""Tables, notes and progress bars of the command line.

`rich` draws them when it is installed; plain text of the same content otherwise, so that a bare
machine still gets readable output. Results go to stdout, everything else to stderr. Nothing in a
text is obeyed, neither by rich nor by the terminal: names come from files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# A cell is its text, or its text and a rich style such as "bold green".
Cell = str | tuple[str, str]
_PLAIN_WIDTH = 160
_UNLIMITED_WIDTH = 1 << 20


@dataclass(frozen=True)
class Column:
    title: str
    right: bool = False
    style: str = ""


class UsageError(ValueError):
    """The command line is wrong: the command ends with status 2."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Around what reads options: a ValueError there is a mistake on the command line."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def _rich_console(*, stderr: bool = False) -> Any | None:
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=stderr, highlight=False)
    # Piped into a file or a pager the width is unknown: do not fold tables at 80 columns.
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    )


def printable(text: str, keep: str = "") -> str:
    r"""`text` with what a terminal would obey spelled out.

    >>> printable("a\x1b[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def _printable_lines(text: str) -> str:
    return printable(text, keep="\n\t")


def text_of(cell: Cell) -> str:
    return printable(cell if isinstance(cell, str) else cell[0])


def _plain_table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [[c.title for c in columns], *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]

    def draw(line: Sequence[str]) -> str:
        cells = (
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        )
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([title, draw(lines[0]), rule, *(draw(line) for line in lines[1:])])


def print_table(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    caption: str = "",
    sections: Sequence[int] = (),
) -> None:
    """Prints a table; `sections` are the row numbers after which a rule is drawn."""
    console = _rich_console()
    if console is None:
        print(_plain_table(title, columns, rows))
        if caption:
            print(caption)
        print()
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        table.add_column(
            column.title,
            # The first column names the row: it is never cut short.
            min_width=max((len(text_of(r[0])) for r in rows), default=0) if number == 0 else None,
            justify="right" if column.right else "left",
            style=column.style or None,
            no_wrap=True,
        )
    for number, row in enumerate(rows):
        cells = [Text(text_of(c), style="" if isinstance(c, str) else c[1]) for c in row]
        table.add_row(*cells, end_section=number in sections)
    _print_whole(console, table)
    if caption:
        console.print(Text(caption, style="dim"), soft_wrap=True)
        console.print()


def _print_whole(console: Any, table: Any) -> None:
    """A number that is cut is another number: what is too wide is left to the terminal to wrap.

    Without the padding on the right, of which a terminal would make empty lines.
    """
    from rich.segment import Segment, Segments

    whole = console.options.update(max_width=_UNLIMITED_WIDTH)
    console.width = max(console.width, console.measure(table, options=whole).maximum)
    segments: list[Segment] = []
    for line in console.render_lines(table, pad=False):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
        segments += [*line, Segment.line()]
    console.print(Segments(segments))


def print_pairs(pairs: Sequence[tuple[str, str]], *, title: str = "") -> None:
    """Prints aligned `name  value` lines."""
    console = _rich_console()
    title = printable(title)
    pairs = [(printable(name), printable(value)) for name, value in pairs]
    width = max((len(name) for name, _ in pairs), default=0)
    if console is None:
        if title:
            print(title)
        for name, value in pairs:
            print(f"  {name.ljust(width)}  {value}")
        return
    from rich.text import Text

    if title:
        console.print(Text(title, style="bold"))
    for name, value in pairs:
        line = Text("  ").append(name.ljust(width), style="cyan").append("  " + value)
        console.print(line, soft_wrap=True)


def say(text: str, *, style: str = "") -> None:
    """One line of results on stdout."""
    console = _rich_console()
    text = _printable_lines(text)
    if console is None:
        print(text)
    else:
        from rich.text import Text

        console.print(Text(text, style=style), soft_wrap=True)


def note(text: str) -> None:
    """One line that is not a result, on stderr."""
    print(_printable_lines(text), file=sys.stderr, flush=True)


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr that vanishes when done; call what it yields once per step, with its name.

    The name is shown while the step runs: call it before the work.
    """
    console = _rich_console(stderr=True)
    if console is None or not console.is_terminal:
        yield lambda _text: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[step]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=total, step="")
        started = 0

        def step(text: str) -> None:
            nonlocal started
            bar.update(task, completed=started, step=printable(text))
            started += 1

        yield step
