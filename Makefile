.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all outside lowest newest lint format bench bench-smoke instructions \
	instructions-accept docs docs-serve generator-matrix fuzz faults release-check dist clean
# With the environment's own folder in front, so that everything finds the Node chosen by the setup.
python := PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python
export PYTHON
# Whole programs: none of these tests counts for coverage.
outside := $(addprefix tests/,outside examples faults generator interop packaging)
# Without compiled files each process rewrites the assertions of all tests, for 20 seconds.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' Makefile

setup: ## prepare .venv for everything below (quick when nothing changed)
	@scripts/setup
	@$(python) -m tests.requirements

demo: ## start the example chat (keeps its data in .data/chat)
	@scripts/setup demo
	@$(python) -m examples.chat

test: ## pyright, ruff, and the tests of all packages but slow ones
	@scripts/setup test docs lint
	@PATH="$(CURDIR)/.venv/bin:$$PATH" scripts/test $(outside)

test-all: ## the same with slow tests, and with coverage if no program is missing
	@ALULA_TEST_PART=all $(MAKE) --no-print-directory test

outside: ## the pages, the chat, the wheel and the official clients, as their users have them
	@scripts/setup test docs clients
	@$(python) -m pytest -q -rfEs -n auto --dist worksteal $(outside)

lowest: ## the tests marked `contract` with the lowest versions that pyproject.toml allows
	@scripts/setup test
	@scripts/try-versions lowest

newest: ## the same with the newest of everything, on the newest Python that is here
	@scripts/setup test
	@scripts/try-versions newest

lint: ## ruff and pyright
	@scripts/setup test lint
	@scripts/lint

format: ## let ruff format and mend what it can
	@scripts/setup test lint
	@$(python) -m ruff check --quiet --fix .
	@$(python) -m ruff format --quiet .

bench: ## measure against other frameworks, print tables, write plots (only=generated, rest, mongodb, sql, client, realtime or start)
	@scripts/setup bench
	@$(python) -m benchmarks.run $(only)

bench-smoke: ## a second of each server: does it run at all?
	@scripts/setup bench
	@$(python) -m benchmarks.run --smoke $(only)

instructions: ## fail if one of five requests takes over 3 % more instructions than the baseline
	@scripts/setup test
	@$(python) -m benchmarks.instructions

instructions-accept: ## write a new baseline, to be committed with its reason
	@scripts/setup test
	@$(python) -m benchmarks.instructions --accept

docs: ## build the documentation into site/
	@scripts/setup docs
	@$(python) -m zensical build --strict
	@cp docs/*.md site/
	@echo "docs: built into site/; make docs-serve shows them, with a search that works"

docs-serve: ## build the documentation and serve it (port=8000)
	@$(MAKE) --no-print-directory docs
	@echo "docs: http://127.0.0.1:$(or $(port),8000)/"
	@$(python) -u -m http.server --bind 127.0.0.1 --directory site $(or $(port),8000)

fuzz: ## search longer for counterexamples with Hypothesis
	@scripts/setup test
	@HYPOTHESIS_PROFILE=fuzz $(python) -m pytest -q -o faulthandler_timeout=0 -m hypothesis

faults: ## kill databases, buses, workers and networks for minutes while clients write
	@scripts/setup test
	@ALULA_FAULTS=full $(python) -m pytest -qs -o faulthandler_timeout=0 tests/faults

generator-matrix: ## make, test and run an application for every combination of answers
	@scripts/setup test
	@$(python) -m tests.generator.journey --all

release-check: ## what only a release needs; takes long
	@scripts/release-check

dist: ## build what a release uploads into dist/
	@scripts/setup test
	@rm -rf dist
	@$(python) -m build --no-isolation --outdir dist

clean: ## remove all that these commands have made
	rm -rf .venv site .cache dist tests/interop/node_modules benchmarks/node_modules \
		tests/interop/generated_clients/node_modules tests/interop/agents/node_modules
