"""The documents against the tree: links, settings, names, and the README's code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ac4k
from ac4k import new

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
SETTINGS = ROOT / "docs/environment.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="needs the source tree")


def documents() -> list[Path]:
    folders = ("", "docs", "benchmarks", "examples")
    return sorted(path for folder in folders for path in (ROOT / folder).glob("*.md"))


def prose(path: Path) -> str:
    """A document without its code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The names GitHub gives to a document's headings."""
    headings = re.findall(r"^#+ +(.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def section(path: Path, heading: str) -> str:
    match = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", path.read_text(), re.DOTALL | re.M)
    assert match, f"{path.name} has no section '{heading}'"
    return match[1]


def variables_of(heading: str) -> set[str]:
    """What a section of docs/environment.md has table rows for."""
    return set(re.findall(r"^\| `(AC4K_\w+)` \|", section(SETTINGS, heading), re.MULTILINE))


# ---- Size and links -------------------------------------------------------------------------


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) < 150


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path: Path) -> None:
    for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link}"
        assert target.is_relative_to(ROOT), f"{path.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{path.name}: {link}"


def test_code_fences_are_closed() -> None:
    for path in documents():
        assert path.read_text().count("\n```") % 2 == 0, path.name


# ---- Settings -------------------------------------------------------------------------------

# How a variable of the environment is read, by the kind of file.
READS = {
    ".cpp": r'(?:getenv|environment)\(\s*"(AC4K_\w+)"',
    ".hpp": r'(?:getenv|environment)\(\s*"(AC4K_\w+)"',
    ".py": r"(?:environ\.get\(|environ\[|getenv\()\s*[\"'](AC4K_\w+)",
    ".cmake": r"(?:ac4k_setting\(|\$ENV\{)(AC4K_\w+)",
    ".txt": r"(?:ac4k_setting\(|\$ENV\{)(AC4K_\w+)",
    ".sh": r"\$\{?(AC4K_\w+)|^\s*(?:export )?(AC4K_\w+)=",
    "": r"\$[({](AC4K_\w+)|^export .*?(AC4K_\w+)",  # Makefile
}


def variables_read(*places: str) -> set[str]:
    found: set[str] = set()
    for place in places:
        root = ROOT / place
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and path.suffix in READS:
                groups = re.findall(READS[path.suffix], path.read_text(), re.MULTILINE)
                found.update(name for group in groups for name in _names(group))
    return found


def _names(group: str | tuple[str, ...]) -> list[str]:
    return [name for name in ([group] if isinstance(group, str) else group) if name]


def test_every_variable_is_documented_and_every_documented_one_is_read() -> None:
    read = variables_read("src", "python", "cmake", "tools", "CMakeLists.txt", "Makefile")
    user = variables_of("When installing") | variables_of("At run time")
    tests = variables_of("Tests only")
    assert {"AC4K_BACKEND", "AC4K_CPU_ISA", "AC4K_CACHE_DIR"} <= read, "the search has gone blind"
    assert read - tests == user
    assert tests == variables_read("tests") - user
    assert len(user) <= 10


def test_no_other_variable_is_named_on_the_page() -> None:
    rows = ("When installing", "At run time", "Tests only", "CMake options")
    known = set().union(*(variables_of(heading) for heading in rows))
    assert set(re.findall(r"AC4K_[A-Z0-9_]+", SETTINGS.read_text())) == known


def test_cmake_options_are_documented() -> None:
    declared = set(re.findall(r"^option\((AC4K_\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
    assert variables_of("CMake options") == declared | {"AC4K_NVCC"}


def test_settings_named_on_the_page_exist() -> None:
    text = SETTINGS.read_text()
    for name in re.findall(r"`ac4k\.(\w+)", text):
        assert hasattr(ac4k, name), name
    for name in re.findall(r'ac4k_set\("(\w+)"', text):
        assert isinstance(ac4k._native.C.get(name), str), name


# ---- Names ----------------------------------------------------------------------------------


def test_the_op_page_has_every_op() -> None:
    headings = anchors(ROOT / "docs/ops.md")
    assert {op["name"] for op in ac4k.op_table()} <= headings


def test_the_readme_has_every_op_and_architecture() -> None:
    text = README.read_text()
    for op in ac4k.op_table():
        assert f"`{op['name']}`" in text, op["name"]
    table = (ROOT / "src/cuda/architectures.def").read_text()
    for name, state in re.findall(r'^AC4K_CUDA_ARCH\((\w+), .*?"(.*?)"\)', table, re.MULTILINE):
        assert re.search(rf"^\| CUDA \| {name} .*\| {state}", text, re.MULTILINE), name


def test_contributing_lists_what_ac4k_new_writes() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for pattern, _ in new._FILES.values():
        assert f"`{pattern.format(name='my_op')}`" in text


def test_files_named_in_the_documents_exist() -> None:
    places = r"`((?:src|python|tools|tests|cmake|include|docs|examples|benchmarks)/[\w./-]+\.\w+)`"
    made_later = {"tests/gpu/last_run.json"}
    for path in documents():
        for name in set(re.findall(places, prose(path))) - made_later:
            if "my_op" not in name and "sm103a" not in name:
                assert (ROOT / name).exists(), f"{path.name}: {name}"


# What the rows of the README's table are in benchmarks/results, in their order.
MEASURED = (
    ("h200_gguf", "quant_linear", {"fmt": "q4_0"}, [1, 4096, 14336]),
    ("h200_gguf", "quant_linear", {"fmt": "q4_k"}, [8, 4096, 14336]),
    ("h200_gguf", "quant_linear", {"fmt": "q4_0"}, [512, 4096, 14336]),
    ("h200_gemm_q8_1", "gemm_q4_0_q8_1", {}, [4096, 8, 14336]),
    ("h200_w4a16", "w4a16_gemm", {"layout": "g128"}, [1, 8192, 28672]),
    ("h200_w4a16", "w4a16_gemm", {"layout": "g128"}, [32, 8192, 28672]),
    ("h200_w4a16", "w4a16_gemm", {"layout": "g128"}, [4096, 8192, 28672]),
    ("h200_memory", "quantize_int8", {"granularity": "per_token"}, [8192, 4096]),
    ("h200_memory", "rms_norm_quant", {"dtype": "float8_e4m3fn"}, [16384, 8192]),
    ("h200_memory", "fused_add_gelu", {"approximate": "none"}, [64, 512, 4096]),
)


def test_the_readmes_numbers_are_those_of_the_results() -> None:
    table = README.read_text().partition("## Measured")[2].partition("Medians")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    for row, (file, *wanted) in zip(rows, MEASURED, strict=True):
        results = json.loads((ROOT / f"benchmarks/results/{file}.json").read_text())["results"]
        (found,) = (
            result
            for result in results
            if [result[key] for key in ("op", "options", "shape")] == wanted
            and result["dtype"] in ("bf16", "u8")
        )
        times = found["timings_us"]["ac4k"]
        alone, chain = (times[mode]["median"] for mode in ("cold", "chain"))
        share = found["roofline"]["percent"]["cold"]
        digits = 1 if alone < 100 else 0
        assert row[2] == f"{alone:.{digits}f} / {chain:.{digits}f}", row
        assert row[3] == ("–" if share is None else f"{share:.0f} %"), row


# ---- The README's code ----------------------------------------------------------------------

CHECKS = """
assert y.shape == x.shape
assert isinstance(product, np.ndarray)
assert product.tolist() == [[1, 1]] * 3
assert hidden.shape == (512, 256)
gelu = torch.nn.functional.gelu(x + bias, approximate="tanh")
expected = 2.0 * x if device == "cuda" else x * x + gelu
torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
"""


def test_the_readmes_code_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (code,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    script = tmp_path / "readme.py"  # a file: torch.compile reads the source
    script.write_text(code + CHECKS)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ---- C++ in the documents -------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_whole_programs_compile(tmp_path: Path) -> None:
    code = re.compile(r"^```cpp\n(.*?)^```", re.DOTALL | re.MULTILINE)
    programs = [text for path in documents() for text in code.findall(path.read_text())]
    programs = [text for text in programs if "int main(" in text]
    assert programs
    for text in programs:
        source = tmp_path / "program.cpp"
        source.write_text(text)
        strict = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
        command = ("g++", *strict, "-I", ROOT / "include", source)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
