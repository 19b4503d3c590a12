# Every command that developers and CI use. `make help` lists them.

include tools.mk

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell cat VERSION)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(VERSION) -X k8s.io/component-base/version.gitCommit=$(COMMIT)
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v "$$(go env CC)"),-race)

# The integration suites share two cores with the control planes they run against.
TEST_TIMEOUT  ?= 25m
# Most tests wait for others most of the time.
TEST_PARALLEL ?= 8
FUZZTIME     ?= 30s
# What takes too long for every change.
LONG         := ^TestSoak

.PHONY: help
help: ## List the commands.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show the main job on real control planes on this machine. KEEP=1 leaves it running, DRIVER=grpc has the driver over gRPC.
	@go build -o bin/demo ./test/demo && KEEP='$(KEEP)' DRIVER='$(DRIVER)' exec bin/demo

.PHONY: demo-stop
demo-stop: ## End what `make demo KEEP=1` left running.
	@go run ./test/lab down --name demo

.PHONY: build
build: ## Build both commands into bin/.
	$(GOBUILD) -o bin/ ./cmd/...

.PHONY: test
test: test-unit test-integration ## Run all tests: the unit tests first, then the suites against real control planes.

.PHONY: test-unit
test-unit: ## Run the unit tests.
	go test $(RACE) $$(go list ./... | grep -v /test/integration)

.PHONY: test-integration
test-integration: ## Run the suites against real control planes (builds them the first time).
	go run ./test/lab build
	go test -count=1 -timeout=$(TEST_TIMEOUT) -parallel=$(TEST_PARALLEL) -skip='$(LONG)' -v ./test/integration/...

.PHONY: soak
soak: ## Run what takes long, with the race detector: thousands of machines, slow clones, long drains, every fault (about an hour).
	go run ./test/lab build
	go test $(RACE) -tags=soak -count=1 -timeout=120m -parallel=$(TEST_PARALLEL) -run='$(LONG)|^TestCrashMatrix$$|^TestFiftyMachinesAtOnce$$|^TestContract$$' -v ./test/integration/...

.PHONY: bench
bench: ## Measure requests, times and memory against the lab, and what the driver computes per machine (about a quarter of an hour).
	go run ./test/lab build
	go test -tags=bench -count=1 -timeout=60m -run '^TestBench$$' -v ./test/integration
	go test -run '^$$' -bench . -benchmem ./api/... ./pkg/...

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (default 30s).
	@for package in $$(go list ./api/... ./pkg/...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "== $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

.PHONY: lint
lint: ## Lint the code, the layout and the API over gRPC.
	$(GOLANGCI_LINT) run ./...
	$(BUF) lint

.PHONY: format
format: ## Format the code.
	$(GOLANGCI_LINT) fmt ./...
	$(BUF) format -w

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum.
	go mod tidy

.PHONY: generate
generate: ## Generate code, the ProviderSpec's JSON schema and reference page, and the golden files.
	$(CONTROLLER_GEN) object paths=./api/v1alpha1/...
	$(BUF) generate
	go test ./api/driver/v1 -run '^TestContract$$' -update
	go run ./api/v1alpha1/internal/reference
	go test ./pkg/spi/render -run '^TestGolden$$' -update

.PHONY: verify
verify: ## What CI runs: tidy, generate, format, lint and test. Fails if that changed a file.
	@before=$$(git status --porcelain --untracked-files=all; git diff HEAD | git hash-object --stdin); \
	$(MAKE) tidy generate format lint test; \
	after=$$(git status --porcelain --untracked-files=all; git diff HEAD | git hash-object --stdin); \
	if [ "$$before" != "$$after" ]; then \
		echo "make verify changed files; commit what it made:"; git status --short; git diff HEAD --stat; exit 1; \
	fi
