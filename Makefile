# Everything that a person or CI runs. Nothing here needs an account, a container runtime or a system service.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
REQUIREMENTS := tests/stack-requirements.txt
# Named after the requirements' content: another content is another stamp, whatever the files' times say.
VENV_STAMP := $(VENV)/.installed-$(shell cksum < $(REQUIREMENTS) | tr ' ' '-')
CARGO := cargo

.PHONY: help prerequisites venv build fmt lint test demo drill sim cases schema contracts bench canary reconcile mutants up down status send schedule clean-local

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: prerequisites venv ## Shows the whole path on a local stack: builds, deploys, delivers, and tells the story.
	@$(CARGO) build --workspace --bins --locked
	@target/debug/demo

drill: prerequisites venv ## Kills the functions at each crash boundary, and plays what receivers answer (LONG=1: waits 900 s out).
	@$(CARGO) build --workspace --bins --locked --features punctual-flows/drill
	@mkdir -p target/local/drill-bin
	@cp target/debug/{dispatch,deliver,schedule,inspect,operate,redrive,monitor} target/local/drill-bin/
	@$(CARGO) build --workspace --bins --locked
	@target/debug/drill $(if $(LONG),long)

test: prerequisites venv ## Runs all checks and tests: format, lints, unit, property, contract, template, end to end.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) build --workspace --bins --locked
	$(CARGO) test --workspace --locked

sim: prerequisites ## Runs the simulated world: SEEDS=N seeds, or SEED=x alone, line by line.
	@$(CARGO) build --workspace --bins --locked
	@target/debug/sim $(or $(SEEDS),10000) $(SEED)

cases: ## Runs the case files of a folder through the product's own code: DIR=folder.
	@if [ -z "$(DIR)" ]; then echo "usage: make cases DIR=folder (with case files named *.json)" >&2; exit 2; fi
	@tests/tools/prerequisites
	@$(CARGO) build --workspace --bins --locked
	@target/debug/cases "$(DIR)"

schema: prerequisites ## Writes events/schema/*.json from the types that read the events.
	@$(CARGO) build --workspace --bins --locked
	@target/debug/schema

contracts: prerequisites ## Runs the receivers' contracts, status and headers to class (DIR=tests/contracts).
	@$(CARGO) build --workspace --bins --locked
	@target/debug/cases "$(or $(DIR),tests/contracts)"

bench: prerequisites venv ## Measures costs and paces into target/bench.jsonl (ONLY=admission or redrive: that alone, printed).
	@$(CARGO) build --workspace --bins --locked
	@target/debug/bench $(ONLY)

canary: prerequisites venv ## Sends one marked delivery through the stack of "make up", and names the stage that is broken.
	@$(CARGO) build --workspace --bins --locked
	@target/debug/canary

RECONCILE := --destination "$(DESTINATION)" --from "$(FROM)" --until "$(UNTIL)" --by "$(or $(BY),$(shell id -un))"

reconcile: prerequisites ## Compares a receiver's export with the ledger: FILE DESTINATION FROM UNTIL (STAGE: of an AWS account).
	@if [ -z "$(FILE)" ] || [ -z "$(DESTINATION)" ] || [ -z "$(FROM)" ] || [ -z "$(UNTIL)" ]; then \
	    echo "usage: make reconcile FILE=export.csv DESTINATION=id FROM=2026-12-01T00:00:00Z UNTIL=2026-12-02T00:00:00Z" >&2; \
	    echo "       [BY=who] [OUT=report.json] [STAGE=stage: with your own AWS credentials; else the stack of \"make up\"]" >&2; exit 2; fi
	@$(CARGO) build --workspace --bins --locked
	@mkdir -p target/local
	@out="$(or $(OUT),target/local/reconcile-$(DESTINATION)-$$(date -u +%Y%m%dT%H%M%SZ).json)"; \
	    settings="$(if $(STAGE),,$$(target/debug/stack environment))"; \
	    env $$settings target/debug/reconcile --stage "$(or $(STAGE),local)" $(RECONCILE) --out "$$out" $(FILE)

up: prerequisites venv ## Starts a local stack that stays, with a schedule that ticks.
	@$(CARGO) build --workspace --bins --locked
	@target/debug/stack up

down: ## Ends the stack that "make up" started, and nothing else.
	@if [ -x target/debug/stack ]; then target/debug/stack down; else echo "No local stack was started."; fi

status: ## Shows the stack that "make up" started.
	@if [ -x target/debug/stack ]; then target/debug/stack status; else echo "No local stack runs."; fi

send: prerequisites ## Sends a test event to the stack that "make up" started: EVENT=events/function.case.json.
	@if [ -z "$(EVENT)" ]; then echo "usage: make send EVENT=events/function.case.json" >&2; exit 2; fi
	@$(CARGO) build --workspace --bins --locked
	@target/debug/stack send "$(EVENT)"

schedule: prerequisites ## Sends a producer's file of reminders to that stack, in batches: FILE=reminders.jsonl, or .csv.
	@if [ -z "$(FILE)" ]; then echo "usage: make schedule FILE=reminders.jsonl, or .csv" >&2; exit 2; fi
	@$(CARGO) build --workspace --bins --locked
	@target/debug/producer "$(FILE)"

mutants: prerequisites venv ## Breaks one rule at a time in a copy of the sources and says what catches it (ONLY=text).
	@$(CARGO) build --workspace --bins --locked
	@target/debug/mutants $(ONLY)

fmt: ## Formats the sources.
	$(CARGO) fmt --all

lint: ## Runs clippy with warnings as errors.
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

venv: $(VENV_STAMP) ## Installs the emulator and the template linter into .venv.

$(VENV_STAMP): | prerequisites
	@echo "installing the local stack into $(VENV)"
	@rm -rf $(VENV)
	@python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --no-input --disable-pip-version-check -r $(REQUIREMENTS)
	@touch $@

prerequisites:
	@tests/tools/prerequisites

clean-local: down ## Ends the stack and removes its logs and the Python environment.
	rm -rf target/local $(VENV)
