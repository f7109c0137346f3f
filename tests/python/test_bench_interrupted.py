"""`ac4k bench` keeps what it has measured when it is stopped, or when a row fails."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import ac4k
from ac4k.bench import session
from ac4k.bench.interruption import Interruption
from ac4k.bench.report import write_json
from ac4k.cli import main

SHAPES = [f"{rows}x64" for rows in range(1, 101)]
COMMAND = ["bench", "element_wise_mul_add", "--quick", "--device", "cpu", "--peers", "none"]
COMMAND += ["--dtype", "f32", *(word for shape in SHAPES for word in ("--shape", shape))]


@pytest.fixture(autouse=True)
def signals_as_in_the_foreground():
    """A shell's background ignores Ctrl-C, and so do those who are started there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def read(path):
    """Whenever it is looked at it is whole."""
    return json.loads(path.read_text()) if path.exists() else None


def until_written(path, process):
    for _ in range(3000):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_rows_measured_so_far(tmp_path, number):
    target = tmp_path / "bench.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "ac4k", *COMMAND, "--json", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_PROC_BIND": "true"},
    )
    until_written(target, process)
    early = read(target)
    for _ in range(2):  # `timeout` sends it twice
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert (early["complete"], early["stopped_by"]) == (False, None)
    report = read(target)
    measured = report["rows"]["measured"]
    assert report["rows"]["of"] == len(SHAPES)
    assert 1 <= early["rows"]["measured"] <= measured < len(SHAPES)
    assert (report["complete"], report["stopped_by"]) == (False, number.name)
    shapes = ["x".join(map(str, result["shape"])) for result in report["results"]]
    assert shapes == SHAPES[:measured]
    assert all(shape in out for shape in shapes)
    assert f"stopped by {number.name}, incomplete: {measured} of {len(SHAPES)} rows" in err
    assert os.listdir(tmp_path) == ["bench.json"]


def test_rows_before_a_crash_are_kept(tmp_path):
    target = tmp_path / "bench.json"
    crash = (
        "import os, sys, ac4k; from ac4k.cli import main\n"
        "real = ac4k.element_wise_mul_add\n"
        "ac4k.element_wise_mul_add = lambda a, *rest, **options: (\n"
        "    os.abort() if a.shape[0] == 3 else real(a, *rest, **options))\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", crash, *COMMAND, "--json", str(target)]
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGABRT
    report = read(target)
    assert report["complete"] is False
    assert report["rows"]["measured"] >= 1
    assert report["results"][0]["shape"] == [1, 64]


def test_a_row_that_fails_does_not_cost_the_others(monkeypatch, tmp_path, capsys):
    real = ac4k.element_wise_mul_add

    def fails_at_times(a, *rest, **options):
        if a.shape[0] == 2:
            raise KeyError("a mistake in a case")
        return real(a, *rest, **options)

    monkeypatch.setattr(ac4k, "element_wise_mul_add", fails_at_times)
    target = tmp_path / "bench.json"
    command = [*COMMAND[: COMMAND.index("--shape")], "--shape", "1x64", "--shape", "2x64"]
    assert main([*command, "--shape", "3x64", "--json", str(target)]) == 1
    why = "element_wise_mul_add 2x64 f32: KeyError: 'a mistake in a case'"
    assert why in capsys.readouterr().err
    report = read(target)
    assert [result["shape"] for result in report["results"]] == [[1, 64], [3, 64]]
    assert report["rows"] == {"measured": 2, "of": 3}
    assert (report["complete"], report["stopped_by"]) == (True, None)
    assert report["failures"] == [why]


def test_nothing_measured_replaces_nothing(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the signal came to nothing")

    monkeypatch.setattr(session, "run_row", interrupted)
    target = tmp_path / "bench.json"
    target.write_text("older")
    before = signal.getsignal(signal.SIGTERM)
    assert main([*COMMAND, "--json", str(target)]) == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert target.read_text() == "older"
    assert f"did not write {target}" in capsys.readouterr().err


def test_a_file_is_written_whole_or_not_at_all(monkeypatch, tmp_path):
    target = tmp_path / "bench.json"
    link = tmp_path / "link.json"
    link.symlink_to(target)
    write_json({"a": 1}, str(link))
    assert link.is_symlink()
    assert read(target) == {"a": 1}
    with pytest.raises(TypeError):
        write_json({"a": object()}, str(target))

    def full(path, text):
        with path.open("w") as file:
            file.write(text[:5])
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="no space"):
        write_json({"b": 2}, str(target))
    assert read(target) == {"a": 1}
    assert sorted(os.listdir(tmp_path)) == ["bench.json", "link.json"]


def test_a_file_that_cannot_be_written_does_not_cost_the_table(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "bench.json"
    command = [*COMMAND[: COMMAND.index("--shape")], "--shape", "1x64", "--json", str(target)]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "1x64" in printed.out
    assert "ac4k bench: --json: " in printed.err


def test_only_the_first_signal_interrupts():
    interruption = Interruption()
    with interruption:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert interruption.exit_status == 143
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_signals_and_other_threads_are_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    entered = []
    thread = threading.Thread(target=lambda: entered.append(Interruption().__enter__()))
    thread.start()
    thread.join()
    assert entered[0].exit_status == 0
