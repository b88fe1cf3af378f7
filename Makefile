# Thin targets over Go: what is worth a thought stands in test/.
GO       ?= go
LINT_VER := v2.15.0
TOOLS    := $(CURDIR)/bin/tools
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
STATIC   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
# Everything but what needs real processes (e2e) or a file system of its own (power), or judges the tree itself (arch).
UNIT     := $(shell $(GO) list ./... 2>/dev/null | grep -v -e /test/e2e -e /test/arch -e /test/power -e /test/chaos)

.PHONY: build build-arm demo demo-down test sim sim-plants e2e power chaos catchup kills fuzz sec vuln conventions lint arch bench-agent bench-api bench-idle bench-store clean sets

build: ## the three programs, static, for this machine
	@$(STATIC) -o bin/ ./cmd/...

build-arm: ## the same for 64-bit ARM boards
	@mkdir -p bin/arm64
	@GOOS=linux GOARCH=arm64 $(STATIC) -o bin/arm64/ ./cmd/...

demo: build ## a newcomer's first five minutes
	@$(GO) build -o bin/demo ./test/demo
	@bin/demo up

demo-down:
	@$(GO) build -o bin/demo ./test/demo
	@bin/demo down

test: ## pure, bubble and cluster tests, with the race detector
	@$(GO) run ./test/setup /usr/bin/gcc
	@$(GO) test -race -timeout 10m $(UNIT)

SEEDS ?= 193
sim: ## a hub and a fleet of 20 under faults for an hour, for SEEDS new seeds; a breach prints what replays it
	@$(GO) run ./test/sim/run -seeds $(SEEDS)

sim-plants: ## every planted fault is found by the check that is named for it
	@$(GO) test -count=1 -timeout 30m -tags plant -run Planted -v ./test/sim

e2e: build ## real binaries, real processes, real containerd
	@$(GO) run ./test/setup /usr/bin/gcc /usr/bin/containerd /usr/bin/ctr /usr/sbin/runc /usr/bin/ip /usr/bin/qemu-aarch64-static
	@$(GO) test -count=1 -p 1 -timeout 20m ./test/e2e/... ./test/power ./test/chaos

power: CUTS ?= 1000
power: ## power cuts for raft.db and the state file, CUTS each
	@$(GO) test -count=1 -v -timeout 0 ./test/power -cuts $(CUTS)

catchup: ## a member returns after a million writes over 1 MB/s with two cuts
	@$(GO) test -count=1 -v -timeout 60m ./test/cluster -run TestF37MemberReturns -catchup.full

kills: ROUNDS ?= 1000
kills: ## three members killed at once in the middle of anything, ROUNDS times
	@$(GO) test -count=1 -v -timeout 0 -run Killed ./test/replicas -rounds $(ROUNDS)

chaos: TIME ?= 10m
chaos: ## three real members under faults for TIME (SEED=n: that schedule), and what clients and watchers saw of it
	@$(GO) run ./test/setup /usr/bin/ip
	@$(GO) run ./test/chaos/run -time $(TIME) $(if $(SEED),-seed $(SEED))

sets: SETS ?= 1000
sets: ## SETS transactions of 20 objects while whoever leads is killed: each is whole or absent, to every reader and watch
	@$(GO) run ./test/setup /usr/bin/ip
	@$(GO) test -count=1 -v -timeout 0 -run TestSetsAreWhole ./test/chaos -sets $(SETS)

# Fuzzers of what comes from outside; ONLY= runs all.
INPUTS := ./api,./hub/apiserver,./hub/audit,./hub/tokens,./client/remote,./hub/registry.FuzzSelectors

fuzz: TIME ?= 5s
fuzz: ONLY ?= $(INPUTS)
fuzz: ## every fuzzer of an input for TIME each (a duration, or a number of inputs as 300x)
	@$(GO) run ./test/setup /usr/bin/gcc
	@$(GO) run ./test/fuzz -time $(TIME) -only "$(ONLY)"

sec: $(TOOLS)/golangci-lint-$(LINT_VER) ## gosec, clean: each exclusion stands with its reason in .golangci.sec.yml or beside the code
	@$< run --config .golangci.sec.yml ./...

VULN_VER := v1.9.0
vuln: ## known vulnerabilities of what is called: needs vuln.go.dev, or a copy of its database in GOVULNDB (file:///...)
	@$(GO) run golang.org/x/vuln/cmd/govulncheck@$(VULN_VER) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

conventions: ## the table of API conventions tried on every kind
	@$(GO) test -count=1 -v -run Conventions ./test/conventions

lint: $(TOOLS)/golangci-lint-$(LINT_VER)
	@$< run ./...

$(TOOLS)/golangci-lint-$(LINT_VER):
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VER)
	@mv $(TOOLS)/golangci-lint $@

arch: ## the import ladder, package docs, the agent's imports and size
	@$(GO) test -count=1 -timeout 15m ./test/arch

bench-agent: build build-arm ## size on disk and resident memory of the agent
	@$(GO) run ./test/setup /usr/bin/containerd /usr/bin/ctr /usr/sbin/runc /usr/bin/ip
	@$(GO) run ./test/bench/agent

bench-store: build ## three members beside three of etcd; QUICK=1 for a short look, JSON=FILE for a list, PROFILE=DIR for profiles
	@cd test/bench/store/etcd && $(GO) build -mod=mod -o $(CURDIR)/bin/bench-etcd .
	@$(GO) build -o bin/bench-store ./test/bench/store
	@bin/bench-store $(if $(PROFILE),-profile $(PROFILE))

bench-api: build ## the operators' API of three members beside bare keys of three of etcd; QUICK=1, JSON=FILE, PROFILE=DIR, ONLY=part of a row's name
	@cd test/bench/store/etcd && $(GO) build -mod=mod -o $(CURDIR)/bin/bench-etcd .
	@$(GO) build -o bin/bench-api ./test/bench/api
	@bin/bench-api $(if $(PROFILE),-profile $(PROFILE)) $(if $(ONLY),-only "$(ONLY)")

bench-idle: build ## memory and processor time of members that have little to do, with 100 devices; JSON=FILE for a list
	@$(GO) build -o bin/bench-idle ./test/bench/idle
	@bin/bench-idle

clean:
	@rm -rf bin
