"""`ac4k gguf show|verify|quantize`: look into a GGUF file, check it, quantise it."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from . import gguf
from ._console import Column, note, print_pairs, print_table, printable, progress, say
from ._formats import FORMATS
from ._gguf_types import PLAIN_TYPES
from ._gguf_verify import block_bytes_of, find_bad_blocks

_LONGEST_VALUE = 88
# q8_1 holds activations: no file has it.
_QUANTIZABLE = tuple(name for name in FORMATS if name != "q8_1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    show = actions.add_parser("show", help="metadata and tensors of a file")
    show.add_argument("file")
    show.set_defaults(action_run=_show)

    verify = actions.add_parser("verify", help="structure, and that all scales are finite")
    verify.add_argument("file")
    verify.set_defaults(action_run=_verify)

    quantize = actions.add_parser(
        "quantize",
        help="a copy with its large floating-point tensors quantised",
        description="Quantises what is in f32, f16 or bf16, has two rows or more, is named "
        "*.weight and is no norm, router or other small tensor. The rest is copied.",
    )
    quantize.add_argument("file", metavar="IN")
    quantize.add_argument("out", metavar="OUT", help="replaced when all is written")
    quantize.add_argument("--format", required=True, choices=_QUANTIZABLE, metavar="FORMAT")
    quantize.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave tensors of this name, such as 'output.*', as they are; may be repeated",
    )
    quantize.set_defaults(action_run=_quantize)

    for action in (show, verify, quantize):
        action.add_argument("--json", action="store_true", help="JSON on stdout")


def run(options: argparse.Namespace) -> int:
    action: Callable[[argparse.Namespace], int] = options.action_run
    return action(options)


# ---- show ------------------------------------------------------------------------------------


def _show(options: argparse.Namespace) -> int:
    with gguf.open(options.file) as file:
        if options.json:
            print(json.dumps(_as_json(file), indent=1, ensure_ascii=False))
        else:
            _print_file(file)
    return 0


def _as_json(file: gguf.File) -> dict[str, Any]:
    return {
        "path": file.path,
        "version": file.version,
        "alignment": file.alignment,
        "bytes": file.nbytes,
        "metadata": _json_value(dict(file.metadata)),
        "metadata_types": dict(file.metadata_types),
        "tensors": [{**info._asdict(), "shape": list(info.shape)} for info in file.infos.values()],
    }


def _json_value(value: Any) -> Any:
    """JSON has no infinities and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _json_value(each) for key, each in value.items()}
    return [_json_value(each) for each in value] if isinstance(value, list) else value


def _print_file(file: gguf.File) -> None:
    infos = file.infos.values()
    count = sum(math.prod(info.shape) for info in infos)
    formats = Counter(info.format for info in infos)
    print_pairs(
        [
            ("version", f"{file.version}, alignment {file.alignment}"),
            ("size", _size(file.nbytes)),
            ("tensors", f"{len(infos)}, {count:,} values"),
            ("formats", ", ".join(f"{n} × {name}" for name, n in formats.most_common()) or "none"),
        ],
        title=file.path,
    )
    types = file.metadata_types
    rows = [
        (key, _type_text(types[key], value), _value_text(value))
        for key, value in file.metadata.items()
    ]
    if rows:
        print_table("Metadata", [Column("key"), Column("type"), Column("value")], rows)
    columns = [Column("tensor"), Column("format"), Column("shape"), Column("size", right=True)]
    if infos:
        table = [
            (i.name, i.format, " × ".join(map(str, i.shape)) or "one", _size(i.nbytes))
            for i in infos
        ]
        print_table("Tensors", columns, table)


def _type_text(kind: Any, value: Any) -> str:
    if isinstance(kind, list):
        return f"{len(value)} arrays"
    return f"{len(value)} × {kind[1:-1]}" if kind.startswith("[") else str(kind)


def _value_text(value: Any) -> str:
    """On one line, not too long."""
    if isinstance(value, list):
        parts = [
            _value_text(v) if not isinstance(v, list) else f"[{_value_text(v)}]" for v in value[:8]
        ]
        text = ", ".join([*parts, "..."] if len(value) > 8 else parts)
    else:
        text = f"{value:.9g}" if isinstance(value, float) else printable(str(value))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.4g} {unit}" if unit != "B" else f"{count} B"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError("not reached")


# ---- verify ----------------------------------------------------------------------------------


def _verify(options: argparse.Namespace) -> int:
    bad = {}
    with gguf.open(options.file) as file:
        with progress("verifying", len(file.infos)) as step:
            for info in file.infos.values():
                step(info.name)
                found = find_bad_blocks(
                    info.format, block_bytes_of(info.format), file.raw(info.name)
                )
                if found.num_bad:
                    bad[info.name] = found
        formats = {name: file.infos[name].format for name in bad}
        num_tensors, num_bytes = len(file.infos), file.nbytes
    if options.json:
        rows = [
            {"name": name, "format": formats[name], "bad": found.num_bad, "first": found.first}
            for name, found in bad.items()
        ]
        print(json.dumps({"ok": not bad, "tensors": num_tensors, "bad": rows}, indent=1))
        return int(bool(bad))
    for name, found in bad.items():
        what = "values" if formats[name] in PLAIN_TYPES else "blocks"
        note(
            f"ac4k gguf: tensor {name!r} ({formats[name]}): {found.num_bad} {what} "
            f"that are infinite or not a number, the first is number {found.first}"
        )
    if not bad:
        say(f"{options.file}: {num_tensors} tensors, {_size(num_bytes)}: all finite")
    return int(bool(bad))


# ---- quantize --------------------------------------------------------------------------------


def _quantize(options: argparse.Namespace) -> int:
    from ._gguf_quantize import quantize_file

    def is_kept(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in options.keep)

    with gguf.open(options.file) as file:
        for pattern in options.keep:
            if not any(fnmatchcase(name, pattern) for name in file.infos):
                note(f"ac4k gguf: --keep {pattern!r}: no tensor has such a name")
        with progress(f"quantising to {options.format}", len(file.infos)) as step:
            done = quantize_file(file, options.out, options.format, is_kept=is_kept, step=step)
        before, kept = file.nbytes, len(file.infos) - len(done)
    with gguf.open(options.out) as written:  # reads what was written, structure and all
        after = written.nbytes
    facts = {
        "quantized": len(done),
        "kept": kept,
        "bytes_before": before,
        "bytes_after": after,
    }
    if options.json:
        print(json.dumps({"out": options.out, "format": options.format, **facts}, indent=1))
    else:
        say(
            f"{options.out}: {len(done)} tensors in {options.format}, {kept} as they "
            f"were; {_size(before)} became {_size(after)}"
        )
    return 0
