# Two commands are enough: `make run` and `make test`. Both install what is missing, build, and can be repeated.
.PHONY: run test soak parity build setup asan format clean
JOBS ?= $(shell nproc)

setup:
	@bash scripts/setup.sh

build: setup
	@mkdir -p build
	@[ -f build/build.ninja ] || cmake --preset release > build/configure.log 2>&1 || { tail -20 build/configure.log; exit 1; }
	@cmake --build build -j $(JOBS)

run: build
	@bash scripts/run.sh

test: build
	@bash scripts/test.sh

# The suites again and again, each time with other random numbers (ROUNDS, else 20).
soak: build
	@bash scripts/soak.sh

# The long form of the comparisons with independent references (make test has the short one).
parity: build
	@REFRESHLAB_PARITY=full build/tests/test_model "[parity]"
	@REFRESHLAB_PARITY=full build/tests/test_text "[parity]"
	@REFRESHLAB_PARITY=full build/tests/test_app "[parity]"

asan: setup
	@cmake --preset asan
	@cmake --build build-asan -j $(JOBS)
	@REFRESHLAB_FUZZ_RUNS=3000 ctest --test-dir build-asan --output-on-failure --parallel $(JOBS)

format: setup
	@bash scripts/check_format.sh --fix

clean:
	rm -rf build build-asan build-debug
