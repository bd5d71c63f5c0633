# ./demo and ./test install what is missing and call make demo and make test; make help lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO ?= go
PYTHON ?= python3

# Tests load HiGHS from .highs; bin/hare finds it in the lib beside itself.
export HARE_LIBHIGHS := $(firstword $(wildcard $(CURDIR)/.highs/lib/libhighs.*) $(CURDIR)/.highs/lib/libhighs.so)

# Everything is compiled as make build and scripts/release.sh compile it, so that the cache has
# the standard library, SQLite and the other dependencies once for tests and for releases. The
# tags leave name services to Go: without them, net and all that imports it, SQLite too, would be
# compiled once more for the build without cgo. The tag highs lets programs load HiGHS: those
# that import Hare do without unless they choose it.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=netgo,osusergo,highs)

# make check has vetted everything, and thirty test binaries link in half the
# time without tables for debuggers.
quick_build := -vet=off -ldflags=-w

# Many tests wait: for deadlines, for disks, for processes that they kill. With two packages
# for each core, the cores are busy meanwhile.
packages_at_once := -p $(shell echo $$((2 * $$(nproc))))

# Tests have small heaps, so that the collector would run all the time: a fifth of the CPU
# time of the tests that store and restore policies. Tests that measure memory collect
# garbage themselves.
test-go test-race: export GOGC := 400

# The race detector leaves SQLite alone: what it watches is Go that we call, and SQLite
# is C translated to Go, which takes half of the time of the tests of stores when watched.
# Its driver is watched: it uses sync.Map, and of two compiled copies of generic code the
# linker keeps one, which may be the unwatched one, and then there seem to be races.
quick_race := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false

# The longest first, so that no core waits for the last one.
slow := $(addprefix ./,verify serve/sessions cmd/hare solver sim/policies bench online/policies bench/experiment \
	greedy/search api)

# Packages with goroutines of their own are tested under the race detector too.
# The longest first here, too. The detector can find nothing in packages with one goroutine, in
# their tests too: explain, regret, policy, sim, online, verify, wire and the like. The solver
# that explain and regret call is tested by itself.
racy := api solver serve/sessions serve/solves greedy/search greedy/place bench/experiment internal/lp relax \
	serve/admission serve/access sim/study whatif serve/store serve/store/sqlite serve/service client serve/clusters \
	executor/worker executor/pool executor/link executor/rounds history/shadow

demo_instance = $(firstword $(filter-out %.result.json,$(wildcard examples/gavel-*.json)))

# The commit that hare --version names: no date, so that builds are reproducible. There is none where the files come
# from an archive, even one that was unpacked inside another checkout.
COMMIT ?= $(shell [ -z "$$(git rev-parse --show-prefix 2>/dev/null || echo none)" ] && \
	echo "$$(git rev-parse --short=12 HEAD)$$(git diff --quiet HEAD || echo -changed)")

# With -v, the go command prints a line for each module that it downloads and each package that it compiles: every
# twentieth is shown, and whatever else the command says.
progress := awk '/^go: downloading/ {if (++m % 20 == 0) print "   " m " modules downloaded"; fflush(); next} \
	/^[a-z0-9._\/-]+$$/i {if (++n % 50 == 0) print "   " n " packages compiled"; fflush(); next} {print; fflush()}'

PREFIX ?= /usr/local

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | sort | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: prerequisites
prerequisites:
	@scripts/prerequisites.sh

.PHONY: highs
highs: prerequisites ## get HiGHS once, into .highs
	@scripts/get-highs.sh

.PHONY: build
build: highs ## bin/hare, and bin/lib with the library that it finds wherever both are moved
	@mkdir -p bin/lib
	@echo "== go build ./cmd/hare"
	@$(GO) build -v -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.commit=$(COMMIT)" -o bin/hare ./cmd/hare \
		2> >($(progress) >&2)
	@cp -f .highs/lib/libhighs.* bin/lib/

.PHONY: install
install: build ## PREFIX=/usr/local DESTDIR=: bin/hare, with its library in lib/hare
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/hare/lib $(DESTDIR)$(PREFIX)/share/doc/hare
	install -m 755 bin/hare $(DESTDIR)$(PREFIX)/lib/hare/hare
	install -m 644 bin/lib/* $(DESTDIR)$(PREFIX)/lib/hare/lib/
	install -m 644 LICENSE NOTICE README.md CHANGELOG.md $(DESTDIR)$(PREFIX)/share/doc/hare/
	ln -sfn ../lib/hare/hare $(DESTDIR)$(PREFIX)/bin/hare

.PHONY: uninstall
uninstall: ## remove what make install with the same PREFIX and DESTDIR put there
	rm -rf $(DESTDIR)$(PREFIX)/bin/hare $(DESTDIR)$(PREFIX)/lib/hare $(DESTDIR)$(PREFIX)/share/doc/hare

.PHONY: release
release: ## archives, wheels, image and clients of the commit REF (HEAD), in build/release
	@scripts/release.sh $(or $(REF),HEAD) build/release

.PHONY: test-release
test-release: ## builds of HEAD in two places are the same, byte for byte, and work without Go
	@scripts/release.sh --check

.PHONY: demo
demo: build ## solve a shipped instance, verify it twice, draw it
	@test -n "$(demo_instance)" || { echo "examples/gavel-*.json is missing" >&2; exit 1; }
	@mkdir -p build
	@echo "== hare solve $(demo_instance)"
	@bin/hare solve $(demo_instance) --time-limit 5s -o build/demo.result.json
	@echo "== hare verify"
	@bin/hare verify $(demo_instance) build/demo.result.json
	@echo "== verify/hare_verify.py"
	@$(PYTHON) verify/hare_verify.py $(demo_instance) build/demo.result.json
	@bin/hare plot $(demo_instance) build/demo.result.json -o build/gantt.svg
	@bin/hare plot $(demo_instance) build/demo.result.json -o build/gantt.html
	@echo "Two verifiers agree on the plan and its bound. It is in build/demo.result.json; look at it in a browser:"
	@echo "    file://$(CURDIR)/build/gantt.html  (or the picture build/gantt.svg)"

.PHONY: test
test: prerequisites-clients check test-go test-race ## every test of the project
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-packages test-web
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-release test-api test-python
	@echo "All tests passed."

.PHONY: check
check: highs ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these:"; echo "$$unformatted"; exit 1; } >&2
	$(GO) vet ./...
	staticcheck=$$($(GO) -C scripts/tools tool -n staticcheck) && $$staticcheck ./...

.PHONY: test-go
test-go: highs ## go test ./...
	CGO_ENABLED=1 $(GO) test $(quick_build) $(packages_at_once) -timeout 30m $(slow) ./...

.PHONY: test-race
test-race: highs ## the packages with goroutines, under the race detector
	CGO_ENABLED=1 $(GO) test $(quick_build) $(quick_race) $(packages_at_once) -short -timeout 30m \
		$(addprefix ./,$(racy))

# INSTANCES=1000000 takes hours; see docs/lab/sizes-and-times.md.
INSTANCES ?= 100000

.PHONY: oracle
oracle: highs ## agreement and known answers: minutes, not seconds; docs/lab/simulator.md
	CGO_ENABLED=1 $(GO) test -count=1 -v -timeout 60m ./sim/policies -run 'Queue|Gavel' -args -hare.oracle
	CGO_ENABLED=1 $(GO) test -count=1 -timeout 10h ./bench -run TestBruteForce \
		-args -hare.instances=$(INSTANCES)

.PHONY: test-kube
test-kube: build ## hare kube beside a real Kubernetes on loopback, a minute once it is built: docs/use/beside.md
	scripts/kube-helper-test.sh bin/hare ten

.PHONY: test-slurm
test-slurm: build ## hare slurm beside a real Slurm on loopback, 6 minutes: see docs/use/beside.md#slurm
	scripts/slurm-helper-test.sh bin/hare
	scripts/slurm-round-trip.py bin/hare 120
	scripts/slurm-shapes.py bin/hare

.PHONY: test-ray
test-ray: build ## hare ray before a real Ray in a network namespace, 6 minutes: see docs/use/beside.md#ray
	scripts/ray-helper-test.sh bin/hare

.PHONY: audit
audit: ## known vulnerabilities of the Go, npm and Python packages that are used; needs their databases
	@scripts/audit.sh

.PHONY: fuzz
fuzz: highs ## FUZZ=FuzzBearer in PACKAGE=./api for FUZZTIME=60s, not spent on minimising what was found
	CGO_ENABLED=1 $(GO) test -vet=off $(PACKAGE) -run '^$$' -fuzz '^$(FUZZ)$$' \
		-fuzztime $(or $(FUZZTIME),60s) -fuzzminimizetime 5x

.PHONY: test-python
test-python: ## the verifier in Python, and the worker
	$(PYTHON) -m unittest discover -s verify -p '*test*.py'
	$(PYTHON) -m unittest discover -s executor/python/tests

# Said before minutes of tests, not behind it.
.PHONY: prerequisites-clients
prerequisites-clients:
	@scripts/prerequisites.sh clients

.PHONY: clients
clients: ## the Python and TypeScript clients as packages, in build/clients
	@scripts/clients.sh build

.PHONY: test-clients
test-clients: highs ## the clients and the specification, against a server: see docs/reference/http.md#clients
	@$(MAKE) --no-print-directory -j1 test-packages test-api

# Each of these, of the pages, of the release and of the verifier in Python keeps one core busy, so
# make test runs two at a time. The packages come first: they install tools that a release uses.
.PHONY: test-packages test-api
test-packages: highs
	@scripts/clients.sh lint
	@scripts/clients.sh test

test-api: highs
	@scripts/clients.sh fuzz

.PHONY: fuzz-api
fuzz-api: highs ## every operation of the HTTP interface for 10 min, half of it with a key; SEED= another time
	@scripts/clients.sh fuzz 300

.PHONY: web
web: prerequisites-clients ## the bundles of the pages, in plot/web/dist, from plot/web/src: see docs/inside/design.md
	@scripts/web.sh build

.PHONY: test-web
test-web: prerequisites-clients ## the pages: types, geometry, committed bundles, one round in Chromium
	@scripts/web.sh test

.PHONY: bench
bench: build ## quality and times, the tables of docs/lab/sizes-and-times.md
	CGO_ENABLED=1 $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./bench

.PHONY: bench-gap
bench-gap: build ## gaps on the frozen set of 60, 4 min; results in build/gap, see docs/lab/gaps.md
	bin/hare bench gap --times 0.1,1,2 -o build/gap

.PHONY: cpsat
cpsat: .venv/ortools ## OR-Tools in .venv, for hare bench gap --against cpsat

.venv/ortools: bench/requirements.txt
	@$(PYTHON) -m venv .venv || \
		{ echo "install the Python module venv, on Debian: apt-get install python3-venv" >&2; exit 1; }
	.venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: clean
clean: ## remove what was built; .highs stays
	rm -rf bin build
