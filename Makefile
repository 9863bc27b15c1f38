# A command for each use of this tree. `make` lists them.

CARGO ?= cargo
# Each Rust version brings its own lints: only this version's lints are errors.
LINTED_WITH := 1.95
DENY := $(if $(filter $(LINTED_WITH).%,$(shell rustc --version 2>/dev/null)),-D warnings)
# For recording: nothing for root, sudo for others, so cargo itself never runs as root.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# The locked dependencies; a build never changes them silently.
LOCKED := --locked

.DEFAULT_GOAL := help

.PHONY: help
help: ## list these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: setup
setup: ## install what building and testing need and this machine lacks (apt)
	@packaging/setup

.PHONY: build
build: setup ## build everything, for release
	$(CARGO) build $(LOCKED) --workspace --release

.PHONY: workloads
workloads: setup ## build the programs that log their own times, into lab/workloads/bin
	@$(MAKE) --no-print-directory -C lab/workloads

.PHONY: program
program: setup ## build the program alone, for release: target/release/wakepath
	$(CARGO) build $(LOCKED) --release --package wakepath-cli

.PHONY: test
test: setup ## formatter, lints, all tests, licences, layers: some 35 minutes on 2 CPUs
	@LOCKED="$(LOCKED)" packaging/verify all $(CARGO) $(DENY)

.PHONY: check
check: setup ## formatter, lints and most tests that record nothing: under 3 minutes after an edit
	@LOCKED="$(LOCKED)" packaging/verify check $(CARGO) $(DENY)

.PHONY: tries
tries: ## how often noisy tests needed another try, in all runs of `make test`
	@packaging/tries

.PHONY: demo
demo: program ## record a small backup, print why it took its time, write a file for Perfetto
	@packaging/demo

.PHONY: readme
readme: program ## write into README.md what the program says today of the bundled recording
	@packaging/readme

.PHONY: truth
truth: program workloads ## compare paths with what programs log of themselves, KEEP=DIR for the recordings: writes lab/results/truth.md (root)
	$(CARGO) build $(LOCKED) --release --package wakepath-truth --package wakepath-split
	@commit=$$(git describe --always --dirty --exclude='*'); \
	$(AS_ROOT) target/release/wakepath-truth --repeat 1 --noise none,spin,disk,loopback,chatter \
		$(if $(KEEP),--keep $(KEEP)) >target/truth.txt; code=$$?; \
	{ cat lab/truth/truth-head.md; echo; \
	  echo "At commit $$commit on $$(date -u +%F), by \`make truth\`: Linux $$(uname -r), $$(nproc) CPUs."; echo; \
	  echo '```'; sed 1d target/truth.txt; echo '```'; } >lab/results/truth.md; cat target/truth.txt; exit $$code

.PHONY: truth-joins
truth-joins: program workloads ## compare the request that each thread works for with a program's log, by each way to know it (root)
	@packaging/setup plugins || echo "programs whose packages are missing are skipped"
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	$(AS_ROOT) target/release/wakepath-truth joins

.PHONY: truth-requests
truth-requests: program workloads ## compare the answers for 1,800 requests with the books of services with threads and event loops (root)
	@packaging/setup plugins || echo "without its packages, a run fails"
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	@code=0; for services in threads asyncio node node-all; do \
		echo "$$services:"; $(AS_ROOT) target/release/wakepath-truth requests --services $$services || code=1; \
	done; exit $$code

.PHONY: truth-drills
truth-drills: program ## drill into PROGRAMS=1000 programs made at random, and compare with what is planted (root)
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	$(AS_ROOT) target/release/wakepath-truth drills --programs $(or $(PROGRAMS),1000)

.PHONY: refused
refused: program ## ask for functions that loads call, and compare counts with the kernel's: writes lab/results/refused.md (root)
	@$(AS_ROOT) lab/refused/run --wakepath target/release/wakepath >target/refused.md; code=$$?; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/refused/head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make refused\`."; echo; \
	  cat target/refused.md; } >lab/results/refused.md; cat target/refused.md; exit $$code

.PHONY: drilled
drilled: program ## drill into the sources in PROGRAMS=DIR and into servers, TIMES=1, and judge the answers: writes lab/results/drilled.md (root)
	@[ -d "$(PROGRAMS)" ] || { echo "drilled: set PROGRAMS to the folder of the programs' sources"; exit 1; }
	@$(AS_ROOT) lab/drilled/run --wakepath target/release/wakepath --programs "$(PROGRAMS)" --twins \
		--times $(or $(TIMES),1) >target/drilled.md; code=$$?; \
	[ ! -s target/drilled.md ] || cp target/drilled.md lab/results/drilled.md; cat target/drilled.md; exit $$code

.PHONY: incidents
incidents: program ## plant incidents of known cause and size, ask as a newcomer: writes lab/results/incidents.md (root)
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	# A caller in the background may ignore Ctrl-C for all that it starts: then an incident that Ctrl-C ends goes on.
	@$(AS_ROOT) env --default-signal=HUP,INT,QUIT target/release/wakepath-truth incidents >target/incidents.md; code=$$?; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/incidents/head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make incidents\`."; echo; \
	  cat target/incidents.md; } >lab/results/incidents.md; cat target/incidents.md; exit $$code

.PHONY: questions
questions: program ## plant causes in requests to services of Python, Node, Java and Go, and ask: writes lab/results/questions.md (root)
	@packaging/setup plugins || echo "services whose packages are missing are not asked about"
	@packaging/questions
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	@$(AS_ROOT) target/release/wakepath-truth questions >target/questions.md; code=$$?; \
	$(AS_ROOT) target/release/wakepath-truth questions chain_express --files >target/question-files.md || code=1; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/questions/head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make questions\`."; echo; \
	  cat target/questions.md; printf '\n## Spans as files\n\n'; cat target/question-files.md; } >lab/results/questions.md; \
	cat target/questions.md target/question-files.md; exit $$code

.PHONY: cost
cost: program workloads ## the cost of recording that is printed, beside runs of loads alone and recorded: writes lab/results/cost.md (root)
	$(CARGO) build $(LOCKED) --release --package wakepath-truth
	@$(AS_ROOT) target/release/wakepath-truth cost --seconds 0.6 >target/cost.md; code=$$?; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/truth/cost-head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make cost\`."; echo; \
	  cat target/cost.md; } >lab/results/cost.md; cat target/cost.md; exit $$code

.PHONY: peers
peers: ## the states of threads in the traces of WAKEPATH_TRACES and WAKEPATH_FOUND, beside those that the traces prove: writes lab/results/peers.md
	@[ -d "$(WAKEPATH_TRACES)" ] || { echo "peers: set WAKEPATH_TRACES to the folder of the traces"; exit 1; }
	$(CARGO) build $(LOCKED) --release --package wakepath-cli --package wakepath-truth
	@packaging/peers "$(WAKEPATH_TRACES)" "$(WAKEPATH_FOUND)" >target/peers.md; code=$$?; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/truth/peers-head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make peers\`."; echo; \
	  cat target/peers.md; } >lab/results/peers.md; cat target/peers.md; exit $$code

.PHONY: test-vm
test-vm: program workloads dist ## test on Debian's kernels 6.1 and 6.12, emulated: writes lab/results/test-vm.md
	@packaging/setup vm
	$(CARGO) build $(LOCKED) --release --package wakepath-truth --package wakepath-split
	$(CARGO) test $(LOCKED) --release --no-run --package wakepath-cli --test live_root --test live_root_quiet \
		--test live_root_kernel
	$(CARGO) test $(LOCKED) --release --no-run --package wakepath-truth --test live_root_tracers_truth
	$(AS_ROOT) vm/prepare
	vm/test >target/test-vm.md; code=$$?; cp target/test-vm.md lab/results/test-vm.md; cat lab/results/test-vm.md; exit $$code

.PHONY: bench
bench: program workloads ## cost of recording, counting and drilling down, speed of analysis: writes lab/results/performance.md (root)
	@packaging/setup bench || echo "rows of peers that are missing are skipped"
	$(CARGO) build $(LOCKED) --release --package wakepath-bench
	$(AS_ROOT) target/release/wakepath-bench cost --history lab/bench/cost-history.tsv \
		--commit "$$(git describe --always --dirty --exclude='*')" >target/cost.md
	$(AS_ROOT) target/release/wakepath-bench start >target/start.md
	{ printf '\n## Reads at waits and wake-ups\n\n'; $(AS_ROOT) target/release/wakepath-bench reads; echo; } >target/reads.md
	{ printf '\n## Requests\n\n'; $(AS_ROOT) target/release/wakepath-bench requests; echo; } >>target/reads.md
	{ printf '\n## Services with tracing of their own\n\n'; $(AS_ROOT) target/release/wakepath-bench services; echo; } >>target/reads.md
	{ printf '\n## Stacks\n\n'; $(AS_ROOT) target/release/wakepath-bench stacks; echo; } >>target/reads.md
	$(AS_ROOT) target/release/wakepath-bench latency >target/latency.md
	$(AS_ROOT) target/release/wakepath-bench drill >target/drill.md; echo $$? >target/drill.code
	$(AS_ROOT) target/release/wakepath-bench analysis >target/analysis.md
	$(if $(WAKEPATH_TRACES),packaging/bench-traces "$(WAKEPATH_TRACES)",:) >target/traces.md
	packaging/bench-hosts >target/hosts.md
	@commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/bench/head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make bench\`."; echo; \
	  cat target/cost.md; echo; cat target/start.md target/reads.md target/latency.md target/drill.md target/analysis.md target/traces.md; echo; cat target/hosts.md; } >lab/results/performance.md
	@cat lab/results/performance.md; exit "$$(cat target/drill.code)"

.PHONY: bench-loads
bench-loads: program ## pgbench, sysbench, redis-benchmark, iperf3 and dd, alone and recorded: writes lab/results/loads.md (root)
	@packaging/setup loads
	@$(AS_ROOT) packaging/bench-loads $(if $(QUICK),--quick) >target/loads-tables.md; code=$$?; \
	commit=$$(git describe --always --dirty --exclude='*'); \
	{ cat lab/loads/head.md; echo; echo "At commit $$commit on $$(date -u +%F), by \`make bench-loads\`."; echo; \
	  cat target/loads-tables.md; echo; cat lab/loads/works.md; } >target/loads.md; cat target/loads.md; \
	$(if $(QUICK),,[ ! -s target/loads-tables.md ] || cp target/loads.md lab/results/loads.md;) exit $$code

.PHONY: perfetto
perfetto: demo ## hold what is exported against Perfetto's own trace_processor (node, npm)
	crates/report/tests/trace_processor target/demo/backup.rec

.PHONY: fuzz
fuzz: setup ## search for input that breaks a decoder, TIME=30m of CPU each, DECODER=: writes lab/results/fuzz.md
	@packaging/setup fuzz
	@packaging/fuzz $(or $(TIME),30m) $(DECODER)

.PHONY: mutants
mutants: setup ## break the crates that decide and count what no test notices, CRATE=, ONLY=: writes lab/results/mutants.md
	@CARGO=$(CARGO) packaging/mutants $(if $(ONLY),--only "$(ONLY)") $(CRATE)

.PHONY: faults
faults: setup ## recordings killed, without room, interrupted, KILLS=200: writes lab/results/faults.md (root)
	@packaging/faults $(KILLS)

.PHONY: dist
dist: ## one program to copy and a Debian package, into dist/
	@packaging/setup dist
	@packaging/dist

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf dist
