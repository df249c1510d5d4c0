# Everything that is needed on a fresh machine is Python 3.11 to 3.14 and a C compiler.
#
#   make demo      set up, then show what one rack's failure does to the cluster in bench_data/
#   make test      set up, then run the tests
#   make slow      the tests that `make test` leaves out, and a slice of the soak with a fresh seed;
#                  WHOLE=1: with all seeds of the longest ones, instead of a thirtieth;
#                  KFAST_TEST_WHEEL=dist/NAME.whl, of `make wheel`: not one of its own
#   make lint      ruff, mypy, stubtest, cython-lint
#   make debug     the tests against a build with bounds and initialisation checks, and assertions
#   make sanitize  the kernel tests against a build with the same checks and with the address and
#                  undefined sanitizers
#   make race      the kernel tests against a build with the thread sanitizer; needs gcc
#   make lockstep  Kafka's own controller classes and kfast on the same random events: KAFKA=4.1.2, STEPS=10000,
#                  and a fresh SEED unless one is given; KAFKA=3.9.1 or 2.4.1 is ZooKeeper mode, 3.9.1 with
#                  PROFILE=kraft-3.9 KRaft;
#                  needs Java 17, Maven and, once, a network
#   make soak      random steps on kernels beside their plain Python twins: STEPS=10000000, JOBS=1; stopped and
#                  run again, it goes on; STATE=build/soak.json keeps what is done, and removing it begins again
#   make beside    Kafka's own controller classes and kfast on one large cluster: time and memory of each, a
#                  table and a plot in benchmarks/results; PARTITIONS=1000000, KAFKA=4.1.2 (KRaft) or
#                  3.9.1 (ZooKeeper mode, which needs 14 GiB: HEAP=14g)
#   make docs      the documentation as a site, in build/docs; a warning is an error
#   make docs-links  follow the links from it to other sites; needs a network
#   make bench     the benchmarks, PARTITIONS=1000000 of them, and a table and a plot of all sizes
#   make guard     kernels beside their numpy and numba twins: has one become slower?
#   make reports   of all kernels: Cython's annotation, and which loops gcc vectorises; in build/reports
#   make wheel     dist/: an sdist, and a wheel made from it, tested where neither compiler nor checkout is
#   make man       the manual pages of all commands; in build/man
#   make clean     remove all that the above made

PYTHON ?= python3
PARTITIONS ?= 1000000
# The largest cluster in the table and the plot of `make bench`.
MOST ?= 10000000
BENCH ?=
# Of `make lockstep`: the release of Kafka, the seed (empty: a fresh one, which is printed), the events.
KAFKA ?= 4.1.2
SEED ?=
PROFILE ?=
STEPS ?= 10000
# Files of tests side by side; JOBS=0 runs them one after another. Files start in the order of their
# names: by their number of tests, the few long ones would come last, on one core.
JOBS ?= 2
SPREAD = -n $(JOBS) --dist loadfile --no-loadscope-reorder
SANITIZERS ?= address,undefined
# Tests that `make wheel` runs: of all but those of tests/style, which need a checkout, some.
WHEEL_TESTS ?= tests/state tests/journal tests/cli/test_cli.py tests/cli/test_output_files.py \
	tests/cli/test_pictures.py
# Tests that `make sanitize` runs: those that look at kernels most closely.
SANITIZE_TESTS ?= tests/rules tests/kraft tests/analysis tests/capacity tests/timelines tests/io \
	tests/journal tests/state
# Tests that `make race` runs: those of all kernels that use threads.
RACE_TESTS ?= tests/rules tests/kraft tests/analysis tests/journal tests/state
PRELOADED = $(shell cc -print-file-name=libasan.so) $(shell cc -print-file-name=libstdc++.so.6)

VENV := .venv
BIN := $(abspath $(VENV))/bin
KERNELS := $(wildcard kfast/kernels/*.pyx kfast/kernels/*.pxd kfast/kernels/*.h)
IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
EXTRAS := import tomllib; \
	extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(",".join(sorted(set(extras) - {"dev", "docs", "spark"})))
BUILD_NEEDS := import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")
COPIED := kfast kfast_command.py pyspark_kfast tests benchmarks bench_data docs setup.py pyproject.toml \
	MANIFEST.in CITATION.cff LICENSE README.md CHANGELOG.md Makefile .ci .gitignore

.PHONY: demo test slow lint lockstep soak beside docs docs-links debug sanitize race bench guard reports wheel man clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(BIN)/kfast fail bench_data/describe.txt --brokers-file bench_data/brokers.csv --racks a

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q $(SPREAD) -m "not slow"

slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q $(SPREAD) -m slow tests
	$(BIN)/python -m tests.soak --seconds 40

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml \
		--allowlist tests/support/stubtest.txt \
		$(patsubst kfast/kernels/%.pyx,kfast.kernels.%,$(wildcard kfast/kernels/*.pyx))
	PATH="$(BIN):$$PATH" cython-lint kfast/kernels

lockstep: $(VENV)/installed-dev
	$(BIN)/python -m tests.kafka.lockstep --kafka $(KAFKA) $(if $(SEED),--seed $(SEED)) --steps $(STEPS) \
		$(if $(PROFILE),--profile $(PROFILE))

soak: STEPS = 10000000
soak: JOBS = 1
soak: STATE = build/soak.json
soak: $(VENV)/installed-dev
	$(BIN)/python -m tests.soak --steps $(STEPS) --jobs $(JOBS) --state $(STATE) \
		$(if $(SEED),--seed $(SEED))

beside: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.beside --partitions $(PARTITIONS) --kafka $(KAFKA) $(if $(HEAP),--heap $(HEAP))

# From nothing, so that every example runs and no page is left of what is no more.
docs: $(VENV)/installed-docs
	rm -rf docs/generated build/docs
	$(BIN)/python -m sphinx -q -E -W --keep-going -j auto -d build/doctrees docs build/docs

docs-links: $(VENV)/installed-docs
	DOCS_ONLINE=1 $(BIN)/python -m sphinx -q -W --keep-going -b linkcheck docs build/links

bench: $(VENV)/installed-dev
	mkdir -p benchmarks/results
	$(BIN)/python -m pytest benchmarks $(BENCH) -q --benchmark-enable --partitions $(PARTITIONS) \
		--benchmark-columns=min,median,max,rounds --benchmark-sort=name \
		--benchmark-json=benchmarks/results/$(shell date -u +%Y%m%dT%H%M%SZ).json
	$(BIN)/python -m benchmarks.growth --most $(MOST) --folder benchmarks/results

guard: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.guard

man: $(VENV)/installed-dev
	$(BIN)/python -m docs.man build/man

reports: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.reports

# The checked builds are made in copies of the tree, so that they never replace the real kernels.
# build/shared stands where a copy's tests look for ../shared.
define copy_tree
	mkdir -p build/$(1)/kfast
	rm -rf build/$(1)/tests build/$(1)/benchmarks
	find build/$(1)/kfast -type f ! -name '*.so' -delete
	tar -cf - --exclude='*.so' --exclude=__pycache__ $(wildcard $(COPIED)) | tar -xf - -C build/$(1)
	ln -sfn $(abspath ..)/shared build/shared
endef

debug: $(VENV)/installed-dev
	$(call copy_tree,debug)
	cd build/debug && KFAST_DEBUG=1 $(BIN)/python setup.py -q build_ext --inplace
	cd build/debug && $(BIN)/python -m pytest -q $(SPREAD) --ignore tests/style --ignore tests/report \
		--ignore tests/cli -m "not slow and not spark"

sanitize: $(VENV)/installed-dev
	$(call copy_tree,sanitize)
	cd build/sanitize && KFAST_DEBUG=1 KFAST_SANITIZE=$(SANITIZERS) \
		$(BIN)/python setup.py -q build_ext --inplace
	cd build/sanitize && LD_PRELOAD="$(PRELOADED)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		$(BIN)/python -m pytest -q $(SPREAD) -m "kernels and not slow and not spark" $(SANITIZE_TESTS)

# What Arrow's own threads do is not built to be watched, and is left out.
race: $(VENV)/installed-dev
	$(call copy_tree,race)
	cd build/race && KFAST_SANITIZE=thread $(BIN)/python setup.py -q build_ext --inplace
	cd build/race && cc -shared -fPIC -o openmp_for_tsan.so tests/support/openmp_for_tsan.c \
		-Wl,--no-as-needed -lgomp
	rm -rf build/race/reports
	mkdir build/race/reports
	cd build/race && LD_PRELOAD="$(shell cc -print-file-name=libtsan.so) $$PWD/openmp_for_tsan.so" \
		TSAN_OPTIONS="ignore_noninstrumented_modules=1 log_path=$$PWD/reports/report" \
		$(BIN)/python -m pytest -q $(SPREAD) -m "kernels and not slow and not spark" $(RACE_TESTS)
	@cat build/race/reports/* 2>/dev/null && exit 1 || echo "no data race"

# `pip wheel` does what `pip install` of an sdist does first. The tests are those of the sdist, in a
# folder that has no kfast: what they import is the wheel, in an environment of its own.
wheel: $(VENV)/installed-dev
	rm -rf dist build/wheel
	$(BIN)/python -m build -q --sdist --outdir dist .
	$(BIN)/python -m pip wheel -q --no-deps --wheel-dir build/wheel dist/*.tar.gz
	PATH="$(BIN):$$PATH" $(BIN)/auditwheel repair --strip --wheel-dir dist build/wheel/*.whl
	$(BIN)/python -m venv build/wheel/venv
	CC=/bin/false build/wheel/venv/bin/python -m pip install -q --only-binary :all: \
		"$$(echo dist/*.whl)[$(shell $(BIN)/python -c '$(EXTRAS)')]" \
		hypothesis jsonschema pytest pytest-benchmark pytest-xdist
	mkdir -p build/wheel/sdist/tree
	tar -xzf dist/*.tar.gz --strip-components 1 -C build/wheel/sdist/tree
	cd build/wheel/sdist/tree && rm -r kfast kfast_command.py pyspark_kfast setup.py && \
		env -u CI CC=/bin/false ../../venv/bin/python -m pytest -q $(SPREAD) \
		-m "not slow and not spark" --ignore tests/style $(WHEEL_TESTS)
	ls -l dist

$(VENV)/pip:
	@python=; for name in $(PYTHON) python3.14 python3.13 python3.12 python3.11; do \
		if $$name -c '$(IN_RANGE)' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "kfast needs Python 3.11, 3.12, 3.13 or 3.14, and $(PYTHON) is none of them:" \
			"name one with make PYTHON=/path/to/python" >&2; exit 1; \
	fi; \
	$$python -m venv $(VENV) || { \
		echo "$$python cannot make a virtual environment: install its venv package" >&2; exit 1; }
	touch $@

$(VENV)/installed: $(VENV)/pip pyproject.toml setup.py $(KERNELS)
	$(call install,.)
	touch $@

$(VENV)/installed-dev: $(VENV)/pip pyproject.toml setup.py $(KERNELS)
	$(call install,".[dev]")
	touch $(VENV)/installed $@

$(VENV)/installed-docs: $(VENV)/pip pyproject.toml setup.py $(KERNELS)
	$(call install,".[docs]")
	touch $(VENV)/installed $@

# With Cython in .venv and not in a new place each time, kernels that are compiled already stay.
define install
	@command -v $${CC:-cc} >/dev/null || { \
		echo "kfast needs a C compiler: install gcc or clang, or name one with CC=..." >&2; exit 1; }
	$(BIN)/python -c '$(BUILD_NEEDS)' | $(BIN)/python -m pip install -q -r /dev/stdin
	$(BIN)/python -m pip install -q --no-build-isolation -e $(1)
endef

clean:
	rm -rf $(VENV) build dist docs/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find kfast -name '*.so' -delete
