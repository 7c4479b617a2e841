# seqplan. GNU make, one file, no recursion. `make help` lists the targets.
#
# Objects live in build/<variant>/, one folder per way of compiling; V=1 shows the commands, JOBS=N sets how many run
# at once, CFLAGS and LDFLAGS are added to ours.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
MAKEFLAGS += --no-builtin-rules --no-print-directory -j$(JOBS)
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
Q := $(if $(V),,@)

PREFIX ?= /usr/local
COVERAGE_LINE ?= 85
COVERAGE_BRANCH ?= 60
FUZZ_SECONDS ?= 20
TEST_TIMEOUT ?= 300
ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang

# ---- what is built -------------------------------------------------------------------------------------------------

LAYERS := base store spec cost method step sim search fit report cmd
# Open MPI, for sweeps over ranks, where it is found; `make MPI=` builds without.
MPI := $(shell pkg-config --exists ompi-c 2>/dev/null && echo ompi-c)
RANKS_SRC := src/cmd/ranks_$(if $(MPI),mpi,one).c
LINT_SRC := $(sort $(filter-out $(if $(MPI),,src/cmd/ranks_mpi.c),$(wildcard $(LAYERS:%=src/%/*.c))))
SRC := $(filter-out src/cmd/ranks_mpi.c src/cmd/ranks_one.c,$(LINT_SRC)) $(RANKS_SRC)
HEADERS := $(sort $(wildcard $(LAYERS:%=src/%/*.h)))
LIB_SRC := $(filter-out src/cmd/main.c,$(SRC))
TEST_SRC := $(sort $(wildcard tests/unit/test_*.c tests/property/*.c))
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
SCRIPT_TESTS := $(sort $(wildcard tests/*/*.t))
ALL_C := $(wildcard $(LAYERS:%=src/%/*.c)) $(HEADERS) $(sort $(wildcard tests/*/*.c tests/*/*.h src/cuda/*.*h src/cuda/*.cu))

# Libraries, by their pkg-config names. Extend here; GSL and SQLite come with the layer that uses them.
PKGS := libcjson zlib $(if $(wildcard src/store/*.c),sqlite3) $(if $(wildcard src/fit/*.c),gsl) $(MPI)
LDLIBS = $(PKG_LIBS) $(OPENMP) -lm

# SimGrid, which the flows are compared with, where it is found (tools/setup oracle).
SIMGRID := $(shell pkg-config --exists simgrid 2>/dev/null && echo simgrid)
CXX_ORACLE := $(or $(shell command -v g++),c++)

# Threads of the search.
OPENMP := -fopenmp

# The device program: outside the layers, only where there is something to build it with.
NVCC ?= $(shell command -v nvcc)
NVCCFLAGS ?= -O3 -std=c++17 -lineinfo -Xcompiler -Wall,-Wextra,-fopenmp
# Kernels of Hopper's own instructions are compiled for it alone; the rest also runs, through PTX, on what came later.
CUDA_ARCH_hopper := -gencode arch=compute_90a,code=sm_90a
CUDA_ARCH_portable := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
CUDA_SRC := $(wildcard src/cuda/*.cu)
DEVICE := $(if $(and $(NVCC),$(CUDA_SRC)),build/seqplan-device)

# ---- how it is compiled --------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wdouble-promotion -Wfloat-equal -Wundef -Wcast-qual -Wwrite-strings -Wpointer-arith \
	-Wformat=2 -Wvla -Wswitch-enum -fno-common
BASE_FLAGS = -std=c17 -D_POSIX_C_SOURCE=200809L -ffp-contract=off $(OPENMP) -Isrc -Itests $(PKG_CFLAGS) $(WARNINGS)
WERROR := $(if $(filter true,$(CI)),-Werror)

VARIANTS := release asan coverage analyze fuzz
FLAGS_release := -O2 -g $(WERROR)
# SEQPLAN_IS_INSTRUMENTED: random tests draw fewer cases.
FLAGS_asan := -O1 -g -DSEQPLAN_IS_INSTRUMENTED -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all $(WERROR)
FLAGS_coverage := -O1 -g -DSEQPLAN_IS_INSTRUMENTED --coverage $(WERROR)
# The analyzer cannot know that sp_fail() returns false, and would follow each failed call as if it had set its result.
FLAGS_analyze := -O1 -fanalyzer -Wno-analyzer-null-dereference -Wno-analyzer-null-argument -Werror
FLAGS_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
BIN_release := build/seqplan
$(foreach v,$(filter-out release,$(VARIANTS)),$(eval BIN_$v := build/$v/seqplan))
# A sanitizer's own exit code must not look like one of ours.
ENV_asan := ASAN_OPTIONS=exitcode=99:detect_stack_use_after_return=1:allocator_may_return_null=1 \
	UBSAN_OPTIONS=exitcode=99:print_stacktrace=1

# Asked for once, at first use: on a fresh machine pkg-config is there only after tools/setup has run.
# System headers: our warnings are not about the macros of others.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(patsubst -I%,-isystem %,$$(shell pkg-config --cflags $$(PKGS))))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $$(shell pkg-config --libs $$(PKGS)))$(PKG_LIBS)
VERSION_TEXT = $(shell cat VERSION)$(if $(wildcard .git),$(shell git describe --always --dirty --exclude='*' 2>/dev/null | sed 's/^/+/'))

# $1 variant
define VARIANT_RULES
CC_$1 := $(if $(filter fuzz,$1),$(CLANG),$(CC))
TESTS_$1 := $(patsubst %.c,build/$1/tests/%,$(notdir $(TEST_SRC))) $(FUZZ_NAMES:%=build/$1/tests/replay_%)
ORACLE_$1 := build/$1/oracle/oracle_flows $(if $(SIMGRID),build/oracle/oracle_simgrid)

build/$1/%.o: %.c Makefile | deps
	@mkdir -p $$(@D) $$(if $$(Q),&& echo '  CC $1 $$<')
	$$(Q)$$(CC_$1) $$(BASE_FLAGS) $$(FLAGS_$1) $$(DEFINES) $$(CFLAGS) -MMD -MP -c $$< -o $$@
build/$1/src/cmd/main.o: DEFINES = -DSEQPLAN_VERSION='"$$(shell cat build/version)"'
build/$1/src/cmd/main.o: build/version
build/$1/libseqplan.a: $(LIB_SRC:%.c=build/$1/%.o) build/sources
	$$(Q)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
$(BIN_$1): build/$1/src/cmd/main.o build/$1/libseqplan.a
	@$$(if $$(Q),echo '  LINK $$@')
	$$(Q)$$(CC_$1) $$(FLAGS_$1) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)

build/$1/oracle/oracle_flows: build/$1/tests/oracle/oracle_flows.o build/$1/libseqplan.a
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$1) $$(FLAGS_$1) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)

$(foreach s,$(TEST_SRC),$(call TEST_RULE,$1,$s))
$(foreach n,$(FUZZ_NAMES),$(call REPLAY_RULE,$1,$n))
-include $(patsubst %.c,build/$1/%.d,$(SRC) $(TEST_SRC) $(SUPPORT_SRC)) $(FUZZ_NAMES:%=build/$1/tests/fuzz/fuzz_%.d)
endef

# $1 variant, $2 source of a cmocka or property test
define TEST_RULE
build/$1/tests/$(notdir $(2:.c=)): build/$1/$(2:.c=.o) $(SUPPORT_SRC:%.c=build/$1/%.o) build/$1/libseqplan.a
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$1) $$(FLAGS_$1) $$(LDFLAGS) -o $$@ $$^ -lcmocka $$(LDLIBS)

endef

# $1 variant, $2 name of a fuzz target: its corpus as a plain test, without a fuzzing engine
define REPLAY_RULE
build/$1/tests/fuzz/replay_$2.o: tests/fuzz/replay.c Makefile | deps
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$1) $$(BASE_FLAGS) $$(FLAGS_$1) -DFUZZ_CORPUS='"tests/fuzz/corpus/$2"' $$(CFLAGS) -c $$< -o $$@
build/$1/tests/replay_$2: build/$1/tests/fuzz/replay_$2.o build/$1/tests/fuzz/fuzz_$2.o build/$1/libseqplan.a
	@mkdir -p $$(@D)
	$$(Q)$$(CC_$1) $$(FLAGS_$1) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)

endef

$(foreach v,$(VARIANTS),$(eval $(call VARIANT_RULES,$v)))

build/oracle/oracle_simgrid: tests/oracle/oracle_simgrid.cpp Makefile
	@mkdir -p $(@D) $(if $(Q),&& echo '  CXX $<')
	$(Q)$(CXX_ORACLE) -std=c++17 -O2 -Wall -Wextra $(shell pkg-config --cflags simgrid) -o $@ $< $(shell pkg-config --libs simgrid)

# ---- everyday targets ----------------------------------------------------------------------------------------------

.PHONY: all help demo check check-asan coverage lint format format-check bench validate claims fuzz fuzz-long bless install \
	uninstall clean setup deps FORCE
all: $(BIN_release) $(DEVICE) ## build/seqplan, and build/seqplan-device where nvcc is found (default)

help: ## this list
	@awk -F ':.*## ' '/^[a-z_.-]+:.*## / { printf "  %-22s %s\n", $$1, $$2 }' Makefile

# What the goals of this run need installed; `make` itself installs nothing.
SETUP_demo := demo
SETUP_check := check
SETUP_check-asan := check
SETUP_bless := check
SETUP_bench := check
SETUP_validate := check
SETUP_claims := check
SETUP_coverage := coverage
SETUP_lint := lint
SETUP_format := lint
SETUP_format-check := lint
SETUP_fuzz := fuzz
SETUP_fuzz-long := fuzz
NEEDS := $(sort $(foreach g,$(MAKECMDGOALS),$(SETUP_$g)))
SETUP := $(if $(NEEDS),setup)

setup: ## install whatever building, testing and linting need (Debian, Ubuntu)
	@tools/setup $(or $(NEEDS),all)

deps: | $(SETUP)
	@pkg-config --print-errors --exists $(PKGS) || { echo "make: libraries are missing: run 'make setup'" >&2; exit 1; }

DEMO_QUESTION := --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --global-batch 64
DEMO := estimate $(DEMO_QUESTION) --tp 8 --sp 8 --pp 8
DEMO_PLAN := plan $(DEMO_QUESTION)
DEMO_METHODS := allgather ulysses ring zigzag
comma := ,
empty :=
demo: $(BIN_release) ## install what is missing, build, and answer a real 1M-token question
	@for rest in $(DEMO_METHODS:%='--sp-method %') \
		'--vary sp-method=$(subst $(empty) $(empty),$(comma),$(DEMO_METHODS))'; do \
		printf '\n$$ seqplan %s %s\n' '$(DEMO)' "$$rest"; $(BIN_release) $(DEMO) $$rest || exit; \
	done
	@printf '\n$$ seqplan %s\n' '$(DEMO_PLAN)'; $(BIN_release) $(DEMO_PLAN)

# $1 variant. One prove over everything: its closing line is the last thing printed.
# Searches and sweeps that take minutes where the program is instrumented, and are left out there:
# `make check-asan LONG_TESTS=` runs them too.
LONG_TESTS := tests/golden/0002-plans.t tests/cli/0405-plan-asked.t tests/cli/0225-sweep.t tests/cli/0226-sweep-ranks.t \
	tests/cli/0420-sensitivity.t
PROVE = $(ENV_$1) CMOCKA_MESSAGE_OUTPUT=TAP SEQPLAN='$(CURDIR)/$(BIN_$1)' \
	SEQPLAN_TEST_OUTPUT='$(CURDIR)/build/$1/trash' SEQPLAN_ORACLE='$(CURDIR)/build/$1/oracle/oracle_flows' \
	SEQPLAN_SIMGRID='$(if $(SIMGRID),$(CURDIR)/build/oracle/oracle_simgrid)' \
	SEQPLAN_DEVICE='$(DEVICE:%=$(CURDIR)/%)' \
	prove -j$(JOBS) --timer --failures -e 'timeout -k 5 $(TEST_TIMEOUT)' $(TESTS_$1) $(filter-out $(if $(filter release,$1),,$(LONG_TESTS)),$(SCRIPT_TESTS))

check: $(BIN_release) $(TESTS_release) $(ORACLE_release) $(DEVICE) | $(SETUP) ## install what is missing, build, and run every test
	$(Q)$(call PROVE,release)

check-asan: $(BIN_asan) $(TESTS_asan) $(ORACLE_asan) | $(SETUP) ## the same tests, less the longest, under address and undefined-behaviour sanitizers
	$(Q)$(call PROVE,asan)

# Branches of an assert that never fails are not counted.
coverage: $(BIN_coverage) $(TESTS_coverage) $(ORACLE_coverage) | $(SETUP) ## the same tests, then the coverage table and its threshold
	$(Q)find build/coverage -name '*.gcda' -delete
	$(Q)$(call PROVE,coverage)
	$(Q)gcovr --root . --filter src/ --exclude-unreachable-branches --exclude-branches-by-pattern '.*\bassert\(.*' \
		--txt --print-summary --fail-under-line $(COVERAGE_LINE) --fail-under-branch $(COVERAGE_BRANCH) build/coverage

bless: $(BIN_release) $(TESTS_release) $(ORACLE_release) | $(SETUP) ## rewrite golden and expected files, and show what changed
	$(Q)status=0; SEQPLAN_BLESS=1 $(call PROVE,release) || status=$$?; \
		git status --short -- tests README.md docs; git --no-pager diff -- tests README.md docs; exit $$status

BENCHES := $(patsubst tests/bench/%.c,build/release/bench/%,$(sort $(wildcard tests/bench/*.c)))
build/release/bench/%: build/release/tests/bench/%.o $(SUPPORT_SRC:%.c=build/release/%.o) build/release/libseqplan.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS_release) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

bench: $(BENCHES) $(if $(SIMGRID),build/oracle/oracle_simgrid) ## time the program (tests/bench), kept apart from the tests
	@for b in $(BENCHES); do $$b || exit; done

validate: $(BIN_release) ## predicted beside measured: writes docs/validation.md, prints the summary
	$(Q)$< validate --format page >build/validation.md && mv build/validation.md docs/validation.md
	$(Q)$< validate

CLAIMS := $(sort $(wildcard claims/*.json))
claims: $(BIN_release) ## claims of documents beside the model: writes docs/claims.md
	$(Q)$< check --format page $(CLAIMS) >build/claims.md || test $$? -eq 1
	$(Q)mv build/claims.md docs/claims.md

# ---- fuzzing -------------------------------------------------------------------------------------------------------

$(FUZZ_NAMES:%=build/fuzz/fuzz_%): build/fuzz/fuzz_%: build/fuzz/tests/fuzz/fuzz_%.o build/fuzz/libseqplan.a
	$(Q)$(CLANG) $(FLAGS_fuzz) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LDLIBS)

FUZZ_RUNS := $(FUZZ_NAMES:%=fuzz-run-%)
.PHONY: $(FUZZ_RUNS)
$(FUZZ_RUNS): fuzz-run-%: build/fuzz/fuzz_%
	@mkdir -p build/fuzz/corpus/$*
	@build/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/$*- build/fuzz/corpus/$* $(wildcard tests/fuzz/corpus/$*) >build/fuzz/$*.log 2>&1 \
		|| { tail -n 60 build/fuzz/$*.log; exit 1; }
	@printf 'fuzz %s: %s inputs, no failure\n' $* "$$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/$*.log)"

fuzz: $(FUZZ_RUNS) | $(SETUP) ## libFuzzer on every target, FUZZ_SECONDS (20) each
fuzz-long: FUZZ_SECONDS := 3600
fuzz-long: $(FUZZ_RUNS) | $(SETUP) ## the same for an hour each

# ---- lint ----------------------------------------------------------------------------------------------------------

LINTS := lint-layers lint-headers lint-tidy lint-cppcheck lint-shell lint-man format-check
.PHONY: $(LINTS)
lint: $(LINTS) $(LINT_SRC:%.c=build/analyze/%.o) ## layers, headers, clang-tidy, cppcheck, gcc -fanalyzer, shellcheck, format

$(LINTS): | $(SETUP)

lint-layers:
	$(Q)tools/lint-layers src

# Each header stands alone (each source does in the analyze variant).
lint-headers: | deps
	$(Q)for h in $(HEADERS); do \
		printf '#include "%s"\n' "$${h#src/}" | $(CC) $(BASE_FLAGS) -Werror -fsyntax-only -x c - || exit; done

# One process per file: given two, clang-tidy 14 reports a false valist.Uninitialized in the second.
# Unnamed numbers are refused where the physics is.
build/tidy/%.ok: %.c build/analyze/%.o .clang-tidy
	@mkdir -p $(@D) $(if $(Q),&& echo '  TIDY $<')
	$(Q)clang-tidy --quiet $(if $(filter src/cost/% src/step/%,$<),--checks=readability-magic-numbers) $< -- \
		$(BASE_FLAGS) -DSEQPLAN_VERSION='"lint"' >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@
lint-tidy: $(LINT_SRC:%.c=build/tidy/%.ok)

CPPCHECK := cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --suppress=missingIncludeSystem -Isrc -Itests
lint-cppcheck:
	@mkdir -p build/cppcheck
	$(Q)$(CPPCHECK) -j$(JOBS) --cppcheck-build-dir=build/cppcheck --enable=warning,style,performance,portability src
	$(Q)$(CPPCHECK) --enable=unusedFunction --suppress='unusedFunction:tests/*' src $(wildcard tests/unit \
		tests/property tests/support tests/fuzz)

# SC2016: the bodies of sharness tests stand in single quotes.
lint-shell:
	$(Q)shellcheck -x $$(grep -lE '^#!.*[ /](ba)?sh' tools/* .ci/run) $(wildcard tests/bench/*.sh)
	$(Q)shellcheck -x -P SCRIPTDIR -P tests/cli -e SC2016 $(SCRIPT_TESTS) $(wildcard tests/cli/lib*.sh)

lint-man:
	$(Q)$(if $(wildcard docs/*.1),mandoc -T lint -W warning $(wildcard docs/*.1),:)

format-check: ## is every C file as clang-format writes it
	$(Q)status=0; for f in $(ALL_C); do clang-format $$f | cmp -s - $$f || { status=1; \
		echo "$$f: not as clang-format writes it (make format)"; }; done; exit $$status
format: | $(SETUP) ## rewrite every C file with clang-format
	$(Q)clang-format -i $(ALL_C)

# ---- files ---------------------------------------------------------------------------------------------------------

# Written only when the text changes, so that what depends on them is rebuilt only then.
build/version: TEXT = $(VERSION_TEXT)
build/sources: TEXT = $(SRC)
build/version build/sources: FORCE
	@mkdir -p build && { printf '%s\n' '$(TEXT)' | cmp -s - $@ || printf '%s\n' '$(TEXT)' >$@; }

build/cuda/%.o: src/cuda/%.cu $(wildcard src/cuda/*.h src/cuda/*.cuh) Makefile
	@mkdir -p $(@D) $(if $(Q),&& echo '  NVCC $<')
	$(Q)$(NVCC) $(NVCCFLAGS) $(CUDA_ARCH_$(if $(findstring _hopper,$<),hopper,portable)) -c -o $@ $<
build/seqplan-device: $(CUDA_SRC:src/cuda/%.cu=build/cuda/%.o)
	@$(if $(Q),echo '  LINK $@')
	$(Q)$(NVCC) -o $@ $^ -Xcompiler -fopenmp -ldl $(NVCC_LIBS)

compile_commands.json: Makefile build/sources | deps ## for editors and language servers
	@{ echo '['; sep=; for f in $(SRC) $(TEST_SRC) $(SUPPORT_SRC); do printf '%s{"directory": "%s", "file": "%s", "command": "%s"}' \
		"$$sep" '$(CURDIR)' "$$f" "$(CC) $(BASE_FLAGS) $(FLAGS_release) -c $$f"; sep=','; done; echo; echo ']'; } >$@

SHARE = $(DESTDIR)$(PREFIX)/share
install: all ## program, data and manual page under DESTDIR and PREFIX (/usr/local)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BIN_release) $(DEVICE)
	for f in $$(find $(wildcard models hardware frameworks claims) -type f); do install -D -m 644 "$$f" "$(SHARE)/seqplan/$$f" || exit; done
	for f in $$(cd tests/validation && find . -name '*.json*'); do \
		install -D -m 644 "tests/validation/$$f" "$(SHARE)/seqplan/validation/$$f" || exit; done
	$(if $(wildcard docs/seqplan.1),install -D -m 644 -t $(SHARE)/man/man1 docs/seqplan.1)

uninstall: ## remove what install put there
	rm -rf $(DESTDIR)$(PREFIX)/bin/seqplan $(DESTDIR)$(PREFIX)/bin/seqplan-device $(SHARE)/seqplan
	rm -f $(SHARE)/man/man1/seqplan.1

clean: ## remove build/
	rm -rf build
