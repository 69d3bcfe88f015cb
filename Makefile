.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test test-container test-cluster lint types format bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(READY) ## Make the virtual environment with everything in it

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) found. Install Python 3.11 or newer, or say which one to use: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV): about a minute, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@$(BIN)/python -c 'from acker_worker.ledger import warm_up; warm_up()' # compiles the kernels into numba's cache
	@touch $@

demo: $(READY) ## Count the words of a book through a real Kafka, every line acked
	$(BIN)/acker demo

test: $(READY) ## Run the tests, those on a real Kafka and a real Spark included
	$(BIN)/pytest tests/unit tests/kafka tests/spark

test-container: $(READY) ## Run the tests that take any Kafka on one in a container of apache/kafka
	ACKER_TEST_KAFKA=container $(BIN)/pytest tests/kafka -m any_broker

test-cluster: $(READY) ## Run the cluster of docker-compose.yml, and kill, cut off and restart what is in it; needs Docker
	$(BIN)/pytest tests/cluster

lint: $(READY) ## Check style, formatting and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY) ## Check types, tests included
	$(BIN)/mypy

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Measure the ledger, many topologies, and the Spark bolt
	$(BIN)/python -m benchmarks.ledger --json
	$(BIN)/python -m benchmarks.topologies --json
	$(BIN)/python -m benchmarks.spark --json

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
