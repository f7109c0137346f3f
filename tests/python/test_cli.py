"""The command line itself: start-up, exit codes, JSON."""

import json
import os
import re
import subprocess
import sys

import pytest

import ac4k
from ac4k import _console, cli
from ac4k.cli import main, make_parser
from ac4k.environment import environment, last_level_cache_bytes

COMMANDS = ("info", "demo", "bench", "jit", "new", "profile")


def test_every_command_has_help_and_json(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as leaving:
            main([command, "--help"])
        assert leaving.value.code == 0
        assert "--json" in capsys.readouterr().out


def test_no_command_prints_help(capsys):
    assert main([]) == 2
    assert all(command in capsys.readouterr().out for command in ("bench",))


def test_unknown_command_is_a_usage_error():
    with pytest.raises(SystemExit) as leaving:
        make_parser().parse_args(["fly"])
    assert leaving.value.code == 2


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == ac4k.__version__


def test_info_names_what_runs(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert ac4k.get_backend() in text
    assert all(op["name"] in text for op in ac4k.op_table())


def test_info_as_json(capsys):
    assert main(["info", "--json"]) == 0
    block = json.loads(capsys.readouterr().out)
    assert block["info"]["version"] == ac4k.__version__
    assert block["environment"]["cpus"] >= 1


def test_info_does_not_import_torch():
    code = (
        "import sys; from ac4k.cli import main; main(['info', '--json']);"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)


def test_module_and_exit_code():
    done = subprocess.run(
        [sys.executable, "-m", "ac4k", "bench", "nonsense"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("ac4k bench: no benchmark 'nonsense'")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_modules_are_imported(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_parser", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "\n"


def test_info_says_that_there_is_no_cache():
    unset = {name for name in os.environ if name in ("HOME", "XDG_CACHE_HOME", "AC4K_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-m", "ac4k", "info"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in unset},
    )
    assert re.search(r"JIT .*, cache none$", done.stdout, re.MULTILINE), done.stdout


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m ac4k info --json | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_jit_cache_commands(tmp_path):
    def jit(action):
        done = subprocess.run(
            [sys.executable, "-m", "ac4k", "jit", action, "--json"],
            capture_output=True,
            text=True,
            env=os.environ | {"AC4K_CACHE_DIR": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert jit("list") == []
    assert jit("clear") == {"removed": 0}


def test_environment_is_json_and_complete():
    block = json.loads(json.dumps(environment()))
    for name in ("date", "git", "gpus", "cpu", "cpu_isa", "threads", "python", "packages"):
        assert name in block
    assert last_level_cache_bytes() >= 1 << 18


def test_tables_without_rich(monkeypatch, capsys):
    monkeypatch.setattr(_console, "_rich_console", lambda **_: None)
    columns = [_console.Column("op"), _console.Column("time", right=True)]
    _console.print_table("title", columns, [["gemm", ("18 µs", "green")], ["x", "1"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["title", "op     time"]
    assert lines[3:5] == ["gemm  18 µs", "x         1"]
    with _console.progress("work", 2) as step:
        step("one")


@pytest.mark.parametrize("width", [20, 80])
def test_a_wide_table_is_not_cut(monkeypatch, capsys, width):
    rich_console = pytest.importorskip("rich.console")

    def narrow(**_):
        return rich_console.Console(width=width, force_terminal=True, color_system=None)

    monkeypatch.setattr(_console, "_rich_console", narrow)
    columns = [_console.Column("op"), *(_console.Column(f"time {i}", right=True) for i in range(9))]
    times = [f"{123456.7 + i} µs ±3%" for i in range(9)]
    _console.print_table("title", columns, [["quant_linear", *times]], caption="what it means")
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split("  ")[-1].strip() == times[-1] for line in lines)
    assert all(time in line for line in lines if "quant_linear" in line for time in times)
    assert all(line == line.rstrip() for line in lines)  # a terminal would wrap that, too


def test_a_commit_is_that_of_the_package(monkeypatch, tmp_path):
    """Not that of a tree which an installed package happens to lie in."""
    installed = tmp_path / "build" / "site" / "ac4k" / "environment.py"
    installed.parent.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr("ac4k.environment.__file__", str(installed))
    assert environment()["git"] == ac4k.info()["build"].get("git")
