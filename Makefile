.DEFAULT_GOAL := help
PYTHONS := python3.11 python3.12 python3.13 python3.14
# The first that runs: a version manager's script may have no Python behind it.
PYTHON ?= $(firstword $(foreach each,$(PYTHONS),$(if $(shell $(each) -V 2>/dev/null),$(each))) python3)
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready
PARTS ?= tests/unit tests/kafka tests/spark
WORKERS ?= 3
# Else each process compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-all test-oldest-spark test-container test-cluster test-faults chaos lint types format wheel docs docs-serve reference bench bench-setup bench-guard bench-report screenshots clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(READY) ## Make the virtual environment with all dependencies

# What `make demo` needs: a third of the time, and a tenth of the download, of what developers need.
$(RUNNABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$(PYTHON) is not Python 3.11 or newer. Install one of $(PYTHONS), or name another: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@echo "Setting up $(VENV), once: about a minute."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e '.[local]' -c constraints.txt
	@$(BIN)/python -c 'from acker_worker.ledger import warm_up; warm_up()' # compiles the kernels into numba's cache
	@touch $@

$(READY): $(RUNNABLE)
	@echo "Adding PySpark and the tools of developers, once: two minutes."
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@

demo: $(RUNNABLE) ## Count the words of a book through a real Kafka, every line acked
	$(BIN)/acker demo

test: $(READY) ## Run the tests on a real Kafka and a real Spark: under four minutes; PARTS=tests/unit selects a folder
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(PARTS)

test-all: $(READY) ## Run all tests, with random kills, in a browser and in containers: under 40 minutes; needs Docker
	.ci/chromium
	.ci/promtool $(BIN)
	.ci/deploy-tools $(BIN)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --exhaustive $(PARTS)
	$(MAKE) test-oldest-spark test-container test-cluster test-faults chaos

test-oldest-spark: $(READY) ## Run the Spark tests with the oldest supported PySpark; downloads 430 MB
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --target .oldest-spark 'pyspark==4.0.*'
	PYTHONPATH=.oldest-spark $(BIN)/pytest tests/spark

test-container: $(READY) ## Run ten smoke tests on a Kafka in a container; needs Docker
	ACKER_TEST_KAFKA=container $(BIN)/pytest tests/kafka -m smoke

test-cluster: $(READY) ## Run the cluster of docker-compose.yml and kill, cut off and restart its containers; needs Docker
	$(BIN)/pytest tests/cluster $(CLUSTER)

chaos: $(READY) ## Random faults over running topologies, with an independent checker: make chaos SEED=7 MINUTES=60 BROKERS=3 SPARK=1
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),10) --brokers $(or $(BROKERS),1) $(if $(SPARK),--spark)

test-faults: $(READY) ## Apply each deliberate fault to the code, and check that a test of `make test` fails each time
	$(BIN)/python -m tests.mutants

lint: $(READY) ## Check style, formatting and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY) ## Check types, tests included
	$(BIN)/mypy

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(READY) ## Build the wheel, and check its content
	$(BIN)/pytest tests/wheel

reference: $(READY) ## Make the reference in docs/ of the code again
	$(BIN)/python docs/_hooks/reference.py

docs: $(READY) ## Build the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(READY) ## Serve the documentation at http://127.0.0.1:8000, and reload changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench-setup: $(READY) ## Download the compared systems in pinned versions into .bench; needs Maven
	$(BIN)/python -m benchmarks.setup

bench: $(READY) ## Run all benchmarks, into benchmarks/results; needs bench-setup and an idle machine for two hours
	$(BIN)/python -m benchmarks.word_count
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.worker
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.latency --guarantees
	$(BIN)/python -m benchmarks.state
	$(BIN)/python -m benchmarks.message_status
	$(BIN)/python -m benchmarks.process_call
	$(BIN)/python -m benchmarks.broker_restart
	$(BIN)/python -m benchmarks.spark
	$(BIN)/python -m benchmarks.spark_outcomes

bench-guard: $(READY) ## Check ratios of speeds against their floors: under a minute
	$(BIN)/python -m benchmarks.guard

bench-report: $(READY) ## Generate docs/benchmarks.md and its plots from benchmarks/results
	$(BIN)/python -m benchmarks.setup plots
	.bench/plots/bin/python -m benchmarks.report

screenshots: $(READY) ## Make the screenshots of the dashboard in docs/images; needs Chromium, see .ci/chromium
	$(BIN)/pytest --exhaustive tests/kafka/test_dashboard.py -k "readable or links_to" --screenshots docs/images

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
