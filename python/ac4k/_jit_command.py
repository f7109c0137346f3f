"""The command line of `ac4k jit`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ._console import Cell, Column, print_table, say


def run(options: argparse.Namespace) -> int:
    from . import jit

    if options.action == "clear":
        count = jit.clear_cache(options.module, options.arch)
        text = f"{count} {'entry' if count == 1 else 'entries'} removed"
        _show(options, {"removed": count}, text)
        return 0
    if options.action == "build":
        modules = jit.build(options.module, options.arch)
        if options.json:
            print(json.dumps(modules, indent=1))
        else:
            kept = {entry["key"] for entry in jit.list_cache()}
            _print_modules(modules, kept=all(module["key"] in kept for module in modules))
        return 0
    entries = jit.list_cache(options.module, options.arch)
    if options.json:
        print(json.dumps(entries, indent=1))
    else:
        _print_entries(entries, everything=not (options.module or options.arch))
    return 0


def _show(options: argparse.Namespace, block: dict[str, Any], text: str) -> None:
    if options.json:
        print(json.dumps(block))
    else:
        say(text)


def _print_modules(modules: list[dict[str, Any]], *, kept: bool) -> None:
    columns = [
        Column("module", style="bold"),
        Column("kernel"),
        Column("arch"),
        Column("registers", right=True),
        Column("spilled bytes", right=True),
        Column("shared bytes", right=True),
        Column("compiled in", right=True),
    ]
    rows: list[list[Cell]] = []
    for module in modules:
        for number, kernel in enumerate(module.get("kernels", [])):
            spilled = int(kernel["local_bytes"])
            rows.append(
                [
                    module["module"] if number == 0 else "",
                    kernel["name"],
                    module["arch"],
                    str(kernel["registers"]),
                    (str(spilled), "red") if spilled else "0",
                    str(kernel["shared_bytes"]),
                    f"{module['seconds']:.2f} s" if number == 0 else "",
                ]
            )
    where = "into the cache" if kept else "and not kept: there is no cache to write to"
    print_table(f"kernels compiled {where}", columns, rows)


def _print_entries(entries: list[dict[str, Any]], *, everything: bool) -> None:
    if not entries:
        say("the cache is empty" if everything else "the cache has no such entries")
        return
    columns = [
        Column("name", style="bold"),
        Column("arch"),
        Column("compiler"),
        Column("cubin", right=True),
        Column("compiled in", right=True),
        Column("key"),
    ]
    rows: list[list[Cell]] = [
        [
            entry["name"],
            entry["arch"],
            " ".join(entry["compiler"].split()[:2]),
            f"{entry['cubin_bytes'] / 1024:.1f} KiB",
            f"{entry['seconds']:.2f} s",
            entry["key"][:16],
        ]
        for entry in entries
    ]
    print_table("the JIT cache", columns, rows)
