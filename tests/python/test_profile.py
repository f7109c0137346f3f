"""`ac4k.profile()` and `ac4k profile`."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ac4k
from ac4k import _profile_command, demo, profiling
from ac4k.cli import main

A = np.ones((8, 8), np.float32)


def events(run):
    return json.loads(run.trace_path.read_text())["traceEvents"]


@pytest.fixture(params=["torch", "plain"])
def run_in(request, monkeypatch):
    if request.param == "torch":
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr(profiling, "has_torch", lambda: False)
    return request.param


def test_as_context_manager(tmp_path, run_in):
    with ac4k.profile(out_dir=tmp_path) as run:
        for _ in range(3):
            ac4k.gemm(A, A)
    assert [call.name for call in run.calls] == ["gemm"] * 3
    assert sum(event.get("name") == "ac4k::gemm" for event in events(run)) >= 3
    text = run.report_path.read_text()
    assert "gemm" in text
    assert "CPU resident" in text
    assert "wall time" in text
    assert ("torch.profiler" in text) == (run_in == "torch")


def test_as_function(tmp_path, run_in):
    run = ac4k.profile(lambda x, y=0: x + y, 1, y=2, out_dir=tmp_path / "new")
    assert run.result == 3
    assert run.trace_path.exists()
    assert "(none was called)" in run.report_path.read_text()


def test_ops_are_restored_after_an_error(tmp_path):
    before = ac4k.gemm
    seen = []

    def fail():
        seen.append(ac4k.gemm)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ac4k.profile(fail, out_dir=tmp_path)
    assert seen[0] is not before
    assert ac4k.gemm is before
    assert (tmp_path / profiling.REPORT_FILE).exists()


def test_peak_memory_is_that_of_the_region(tmp_path):
    def allocate():
        return float(np.ones(1 << 24).sum())  # 128 MiB

    with ac4k.profile(out_dir=tmp_path) as idle:
        pass
    busy = ac4k.profile(allocate, out_dir=tmp_path)
    assert busy.peak_memory["CPU resident"] - idle.peak_memory["CPU resident"] > 100 << 20


def test_command_on_an_op(tmp_path, capsys):
    assert (
        main(["profile", "--op", "element_wise_mul_add", "--out-dir", str(tmp_path), "--json"]) == 0
    )
    block = json.loads(capsys.readouterr().out)
    assert block["ops"][0]["calls"] == 20
    assert (tmp_path / profiling.TRACE_FILE).exists()


@pytest.mark.parametrize("name", [op["name"] for op in ac4k.op_table()])
def test_command_on_every_op(tmp_path, monkeypatch, name):
    """Those that require a choice, too. Small and once: the question is whether it is called."""
    sizes = demo.demo_sizes
    monkeypatch.setattr(demo, "demo_sizes", lambda op, _size, device: sizes(op, "small", device))
    monkeypatch.setattr(_profile_command, "_CALLS", 1)
    monkeypatch.setattr(_profile_command, "profile", lambda calls, out_dir: calls())
    _profile_command._profile_op(name, str(tmp_path))


def test_an_op_that_numpy_cannot_hold(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ac4k.bench.arrays.has_torch", lambda: False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert main(["profile", "--op", "quantize_fp8", "--out-dir", str(tmp_path)]) == 1
    assert "--op quantize_fp8: NumPy has float8_e4m3fn from" in capsys.readouterr().err


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Profiles a script of this text, given options of `ac4k profile`; the exit status."""
    monkeypatch.setattr(profiling, "has_torch", lambda: False)  # whose profiler takes a second

    def run(text, *words):
        path = tmp_path / "script.py"
        path.write_text(text)
        return main(["profile", "--out-dir", str(tmp_path), *words, str(path)])

    return run


def test_an_error_of_a_script_is_shown_as_python_shows_it(script, tmp_path, capsys):
    assert script("def f():\n    raise ValueError('odd')\nf()\n") == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip() == f'File "{tmp_path / "script.py"}", line 3, in <module>'
    assert lines[-1] == "ValueError: odd"
    assert (tmp_path / profiling.REPORT_FILE).exists()


def test_a_script_that_cannot_be_parsed(script, tmp_path, capsys):
    assert script("def f(:\n") == 1
    error = capsys.readouterr().err
    assert f'File "{tmp_path / "script.py"}", line 1' in error
    assert "SyntaxError" in error
    assert "runpy" not in error


@pytest.mark.parametrize(
    ("leave", "status", "error"),
    [("exit()", 0, ""), ("exit(3)", 3, ""), ("exit('no way')", 1, "no way\n")],
)
def test_the_exit_status_is_the_scripts(script, capsys, leave, status, error):
    assert script(f"import sys\nsys.{leave}\n") == status
    captured = capsys.readouterr()
    assert captured.err == error
    assert "wall time" in captured.out


def test_json_is_alone_on_stdout(script, capfd):
    assert script("import os\nprint('printed')\nos.system('echo echoed')\n", "--json") == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out)["ops"] == []
    assert "printed\n" in captured.err
    assert "echoed\n" in captured.err


def test_command_on_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy as np, ac4k\n"
        "a = np.ones((4, 4), np.float32)\n"
        "ac4k.gemm(a, a)\n"
        "print('arguments', sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "ac4k", "profile", "--out-dir", str(tmp_path), str(script)]
    done = subprocess.run([*command, "--flag", "7"], capture_output=True, text=True, check=True)
    assert "arguments ['--flag', '7']" in done.stdout
    assert "gemm" in (tmp_path / profiling.REPORT_FILE).read_text()


def test_command_needs_one_target(capsys):
    assert main(["profile"]) == 2
    assert "--op NAME" in capsys.readouterr().err
    assert main(["profile", "no_such_script.py"]) == 2
    assert "no_such_script.py" in capsys.readouterr().err
    assert main(["profile", "--op", "no_such_op"]) == 2
    assert "no op 'no_such_op'" in capsys.readouterr().err
