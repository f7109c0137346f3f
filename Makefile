# Two commands: `make demo` and `make test`. `make help` lists the rest.
#
# Variables: PYTHON, TORCH and PIP_ARGS choose what the virtual environment is made with, e.g.
#   make demo TORCH=torch PIP_ARGS="--extra-index-url ..."
# AC4K_BACKEND, AC4K_CUDA_ARCH and AC4K_ROCM_ARCH choose what is built (docs/environment.md).
PYTHON ?=
TORCH ?= torch==2.13.0
PIP_ARGS ?=
WHEEL ?=
GATES ?=
SECONDS ?= 600
export PYTHON TORCH PIP_ARGS

.DEFAULT_GOAL := help
.PHONY: help venv build demo test test-gpu sanitize-gpu fuzz-gguf lint format generate wheel clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

venv: ## .venv with everything pinned; installs missing Debian packages when root
	@tools/setup.sh

build: venv ## compile, and install into .venv so that edited Python files count at once
	@tools/build.sh

demo: build ## build and show every op at work
	@.venv/bin/ac4k demo

test: build ## every gate this machine can run; GATES="pytest ruff" runs some
	@.venv/bin/python tools/check.py $(GATES)

test-gpu: ## tests on this machine's GPU, without network; WHEEL=dist/... tests a built wheel
	@tools/test_gpu.sh $(WHEEL)

sanitize-gpu: ## compute-sanitizer over every op, after test-gpu; OPS="quant_linear" for some
	@tools/sanitize_gpu.sh $(OPS)

fuzz-gguf: ## libFuzzer over the GGUF reader for SECONDS (600)
	@tools/fuzz_gguf.sh $(SECONDS)

lint: venv ## format, ruff, mypy, generated files
	@.venv/bin/python tools/check.py format ruff mypy generated

format: venv ## rewrite sources in the project's format
	@.venv/bin/python tools/sources.py --cpp | xargs -r .venv/bin/clang-format -i
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --quiet --fix .

generate: build ## write the files that come from the op table and from benchmark results
	@.venv/bin/python tools/generate.py
	@.venv/bin/python tools/performance.py

wheel: venv ## dist/*.whl for the chosen back end, e.g. AC4K_BACKEND=cuda
	@.venv/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index -C build-dir=build/wheel -w dist . && ls dist/*.whl

clean: ## remove what was built; .venv stays
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
