"""Writes tests/gpu/last_run.json: the GPU the tests last ran on, their outcome, the sources.

`gpu_report.py --hash` prints the hash of the CUDA sources, to compare with the file. Otherwise:
`gpu_report.py NAME=RESULTS.xml ...` reads one JUnit file a run, made by pytest or GoogleTest.
"""

import datetime as dt
import hashlib
import json
import platform
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "tests/gpu/last_run.json"


def source_hash() -> str:
    """sha256 over the contents of src/cuda, in the order of the paths; names do not count."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src/cuda").rglob("*")):
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def counts(results: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped."""
    total = failed = skipped = 0
    for suite in ET.parse(results).getroot().iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def gpu() -> dict[str, str]:
    fields = ("name", "driver_version", "compute_cap")
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    output = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return dict(zip(fields, output.splitlines()[0].split(", "), strict=True))


def main(arguments: list[str]) -> int:
    if arguments == ["--hash"]:
        print(source_hash())
        return 0
    import torch

    device = gpu()
    runs = {}
    for argument in arguments:
        name, _, path = argument.partition("=")
        runs[name] = counts(Path(path))
    report = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        "gpu": device["name"],
        "compute_capability": device["compute_cap"],
        "driver": device["driver_version"],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "runs": runs,
        "cuda_sources_sha256": source_hash(),
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return int(any(run["failed"] for run in runs.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
