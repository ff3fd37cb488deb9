# Two commands are enough: `make run` and `make test`. Both install what is missing, build, and can be repeated.
.PHONY: run demo viewer wheel python-pages tokenizers jupyterlab test test-long test-times bench bench-frame soak soak-long parity program build configure setup asan asan-program tsan format clean
JOBS ?= $(shell nproc)
# Options of the first configuration: make run CMAKE_OPTIONS=-DREFRESHLAB_CUDA=OFF
CMAKE_OPTIONS ?=

setup:
	@bash scripts/setup.sh

configure: setup
	@mkdir -p build
	@[ -f build/build.ninja ] || cmake --preset release $(CMAKE_OPTIONS) > build/configure.log 2>&1 || { tail -20 build/configure.log; exit 1; }

# The program alone, and everything (the suites too).
program: configure
	@cmake --build build -j $(JOBS) --target refreshlab

build: configure
	@cmake --build build -j $(JOBS)

run: program
	@bash scripts/run.sh

# A published model (93 MB, fetched once) with a student made of its own weights.
demo: program
	@bash scripts/demo.sh

# Traces, comparisons, figures and tables without the engine: no libtorch, no CUDA.
viewer:
	@bash scripts/setup.sh --viewer
	@mkdir -p build-viewer
	@cmake -S . -B build-viewer -G Ninja -DREFRESHLAB_ENGINE=OFF -DREFRESHLAB_TESTS=OFF > build-viewer/configure.log 2>&1 || { tail -20 build-viewer/configure.log; exit 1; }
	@cmake --build build-viewer -j $(JOBS) --target refreshlab

# The package of Python as one file in dist/, tried in an environment of its own (docs/howto/python.md). It needs no other program then.
wheel: configure
	@bash scripts/wheel.sh

# The help of the package of Python as pages, in build/python-pages.
python-pages: configure
	@cmake --build build -j $(JOBS) --target refreshlab_python
	@PYTHONPATH=build/python .deps/venv/bin/python scripts/python_pages.py build/python-pages

# Whole published vocabularies (scripts/check_published_tokenizers.py), which are fetched once: 20 MB.
tokenizers: configure
	@cmake --build build -j $(JOBS) --target refreshlab_python
	@PYTHONPATH=build/python .deps/venv/bin/python scripts/check_published_tokenizers.py

# The live view in a real JupyterLab (scripts/check_jupyterlab.py), which is fetched once.
jupyterlab: configure
	@test -x .deps/jupyterlab/bin/jupyter || (.deps/venv/bin/python -m venv .deps/jupyterlab && \
	    .deps/jupyterlab/bin/pip install -q jupyterlab==4.6.6 ipywidgets==8.1.9 anywidget==0.11.0)
	@cmake --build build -j $(JOBS) --target refreshlab_python
	@.deps/venv/bin/python scripts/check_jupyterlab.py

# Each suite once, where it is worth most (tests/CMakeLists.txt). With the published model that the suites look at where it can be had (93 MB, once); without a network they say what they skip.
test: configure
	@cmake --build build -j $(JOBS) --target speed_suites
	@build/refreshlab models get smollm2-135m > /dev/null || true
	@bash scripts/test.sh --label-exclude memory
	@$(MAKE) --no-print-directory asan

# Every suite optimised, then those of the rooms under the sanitizers as well: an hour and a half on two cores.
test-long: build
	@build/refreshlab models get smollm2-135m > /dev/null || true
	@REFRESHLAB_SHARE= bash scripts/test.sh
	@REFRESHLAB_SHARE= $(MAKE) --no-print-directory asan SUITES=room_suites

# Seconds of every suite and the slowest cases of the last runs; runs nothing.
test-times:
	@python3 scripts/test_times.py

# The suites again and again, each time with other random numbers (ROUNDS, else 20).
soak: build
	@bash scripts/soak.sh

# One run of STEPS steps (else 30,000) and a sweep of many short ones: descriptors and memory must stay flat.
soak-long: program
	@python3 scripts/soak_long.py --steps $(or $(STEPS),30000)

# The long form of the comparisons with independent references (make test has the short one).
parity: build
	@for suite in test_model test_text test_gguf test_session test_app; do REFRESHLAB_PARITY=full build/tests/$$suite "[parity]" || exit 1; done

# The suites whose faults are faults of memory; in one commit of three panels, dialogs and the window's shut-down among them (scripts/asan.sh).
# SUITES=room_suites: those of all rooms.
SUITES ?= memory_suites
asan: setup
	@bash scripts/asan.sh $(SUITES)

# The program and its window under both, with their suites; no part of CI.
asan-program: setup
	@cmake --preset asan > /dev/null
	@cmake --build build-asan -j $(JOBS) --target refreshlab test_app test_ui test_gui
	@build-asan/tests/test_app --rng-seed 20240611
	@build-asan/tests/test_ui --rng-seed 20240611
	@ASAN_OPTIONS=detect_leaks=0 LP_NUM_THREADS=1 build-asan/tests/gui/test_gui

# ThreadSanitizer over what threads share and libtorch has no part in (CMakePresets.json, docs/design.md, section 8).
tsan: setup
	@bash scripts/tsan.sh

# What a frame of the window costs at 100, 1,000 and 10,000 steps (docs/development/performance.md).
bench-frame: build
	@LP_NUM_THREADS=1 build/tests/bench/bench_frame

# How fast it is on this machine: table, JSON and pictures in out/bench (docs/benchmarks/README.md). Leave the machine alone meanwhile.
# Options: make bench BENCH="--dtype bf16 --teacher M --student N"
bench: build
	@mkdir -p out/bench
	@LP_NUM_THREADS=1 build/tests/bench/bench_frame 200 Explore > out/bench/frames.json 2> /dev/null
	@build/refreshlab bench --ui out/bench/frames.json --json out/bench/bench.json --figures out/bench $(BENCH)

format: setup
	@bash scripts/check_format.sh --fix

clean:
	rm -rf build build-asan build-debug build-tsan
