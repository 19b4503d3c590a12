# Every command that developers and CI use. `make help` lists them.

include tools.mk

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell cat VERSION)
# The full hash, since the length of a unique abbreviation depends on the clone.
COMMIT  := $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || echo unknown)
# The commit time, as in https://reproducible-builds.org/docs/source-date-epoch/.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(VERSION) -X k8s.io/component-base/version.gitCommit=$(COMMIT)
# As the programs of the lab, with which they share packages (test/lab/compile).
BUILD   := CGO_ENABLED=0 go build -trimpath -buildvcs=false -gcflags=all=-dwarf=false
GOBUILD := $(BUILD) -ldflags '$(LDFLAGS)'

# With this variable, the lab would use the etcd and kube-apiserver of its folder instead of the
# ones that it builds.
unexport KUBEBUILDER_ASSETS

# The minor versions of all control planes, of KubeVirt and of CDI in the lab, such as 1.36, 1.9 and
# 1.65: those of the folders in test/lab/modules. Empty: the defaults in test/lab/binaries/versions.go.
KUBERNETES ?=
KUBEVIRT   ?=
CDI        ?=
export KUBERNETES KUBEVIRT CDI

# Builds the command for labs and their scenarios, and becomes it, so that signals reach it. Make
# exports the variables of its command line, such as KEEP.
LAB := mkdir -p bin && $(BUILD) -o bin/lab ./test/lab && exec bin/lab

# Run every test, even if Go has a cached result: Go's cache
# ignores changes of files outside the module of the test.
# Go does not cache linked tests. Without symbols for debuggers, linking takes two thirds of the time.
GOTEST := go test -count=1 -ldflags='-s -w'

# Keeps the profiles that a test writes: one folder for each run, below bin/_artifacts.
PROFILES := -artifacts -outputdir='$(CURDIR)/bin'

# The race detector needs a C compiler; without one, the tests run without the race detector.
RACE = $(if $(shell command -v "$$(go env CC)"),-race)

# The timeout of a run that hangs. Each suite takes about a quarter
# of an hour on two idle cores, and several times as long beside other work.
TEST_TIMEOUT  ?= 90m
# The timeout of the tests with real nodes, some of whose guests boot for minutes.
NODE_TIMEOUT ?= 180m
# Runs the packages of the integration tests against one lab, without Go's cache of test results. It
# takes the flags of go test.
INTEGRATION  := go run ./test/integration
# The number of packages of the driver's suite that run in parallel, and of parallel tests in each, on two cores.
TEST_PACKAGES ?= 4
TEST_PARALLEL ?= 3
# The number of parallel unit tests in each package. Those that take long wait for slow servers.
UNIT_PARALLEL ?= 8
FUZZTIME     ?= 30s
# The commit since which the packages of `make mutate` must have changed.
BASE         ?= origin/main
# The layout of `make push-image`.
LAYOUT       ?= bin/image
# The charts of `make charts`.
CHARTS       := charts/machine-controller-manager-provider-kubevirt extension/charts/gardener-extension-provider-kubevirt \
	extension/charts/gardener-extension-admission-kubevirt/charts/runtime extension/charts/gardener-extension-admission-kubevirt/charts/application
# The architectures of `make image`.
ARCHITECTURES ?= amd64 arm64
# Tests that take too long for every change.
LONG         := ^TestSoak
# Tests that parse megabytes of hostile input: the race detector
# multiplies time and memory, which these tests measure.
HOSTILE      := TestHostile(Answers|Pages|Watches|Addresses|Serve)

.PHONY: help
help: ## List the commands.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Demonstrate the driver on real control planes on this machine. KEEP=1 leaves it running, DRIVER=grpc runs the driver over gRPC, KUBERNETES, KUBEVIRT and CDI choose versions, NODES=real runs one on real provider nodes.
	@echo 'Build the demo ...' && $(LAB) scenario demo

.PHONY: demo-shoot
demo-shoot: ## Demonstrate the Gardener extension: a Shoot becomes virtual machines with Ready Nodes.
	@echo 'Build the demo, which takes minutes the first time ...' && $(LAB) scenario demo-shoot

.PHONY: landscape
landscape: ## Run a Gardener landscape without the extension, to install it by hand (extension/docs/development/local-setup.md). Ctrl-C removes it.
	@echo 'Build the landscape, which takes minutes the first time ...' && $(LAB) scenario landscape bin/landscape.sh '$(HELM)'

.PHONY: demo-stop
demo-stop: ## Stop the lab that `make demo KEEP=1` left running.
	@$(LAB) down --name demo

.PHONY: demo-restart
demo-restart: ## Build the driver, and restart it in the lab that `make demo KEEP=1` left running.
	@$(BUILD) -ldflags='-s -w' -o bin/ ./cmd/... && $(LAB) restart --name demo

.PHONY: build
build: ## Build the driver's commands into bin/.
	$(GOBUILD) -o bin/ ./cmd/...

.PHONY: build-extension
build-extension: ## Build the extension's commands into bin/.
	cd extension && $(GOBUILD) -o ../bin/ ./cmd/...

.PHONY: image
image: ## Build the container images for amd64 and arm64 from the Dockerfiles as OCI layouts, bin/image, bin/image-extension and bin/image-admission, with an SBOM each.
	@for architecture in $(ARCHITECTURES); do \
		echo "== build bin/linux-$$architecture"; \
		GOOS=linux GOARCH=$$architecture $(GOBUILD) -o bin/linux-$$architecture/ ./cmd/...; \
		(cd extension && GOOS=linux GOARCH=$$architecture $(GOBUILD) -o ../bin/linux-$$architecture/ ./cmd/...); \
	done
	@go build -C image -buildvcs=false -o ../bin/image-layout .
	@bin/image-layout --architectures='$(ARCHITECTURES)' --binaries=bin --output=bin/image --version='$(VERSION)' --revision='$(COMMIT)' --created='$(SOURCE_DATE_EPOCH)'
	@bin/image-layout --dockerfile=extension/Dockerfile --architectures='$(ARCHITECTURES)' --binaries=bin --output=bin/image-extension \
		--version='$(VERSION)' --revision='$(COMMIT)' --created='$(SOURCE_DATE_EPOCH)'
	@bin/image-layout --dockerfile=extension/Dockerfile.admission --architectures='$(ARCHITECTURES)' --binaries=bin --output=bin/image-admission \
		--version='$(VERSION)' --revision='$(COMMIT)' --created='$(SOURCE_DATE_EPOCH)'

.PHONY: push-image
push-image: ## Push the image in LAYOUT (default bin/image) to IMAGE, and print its digest. CI calls it for a release, after a login.
	@$(CRANE) push '$(LAYOUT)' '$(IMAGE)'

.PHONY: krew
krew: ## Package the kubectl plugin for Linux and macOS, with its manifest for krew, into bin/krew.
	@rm -rf bin/krew && mkdir -p bin/krew && sed 's/{VERSION}/$(VERSION)/' krew.yaml > bin/krew/mcm-kubevirt.yaml
	@for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do \
		echo "Package bin/krew/mcm-kubevirt-$$platform.tar.gz ..."; \
		GOOS=$${platform%-*} GOARCH=$${platform#*-} $(GOBUILD) -o bin/krew/$$platform/ ./cmd/mcm-kubevirt; \
		cp LICENSE bin/krew/$$platform/; \
		tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner --mode=go-w -C bin/krew/$$platform -c LICENSE mcm-kubevirt \
			| gzip --no-name > bin/krew/mcm-kubevirt-$$platform.tar.gz; \
		sum=$$(sha256sum < bin/krew/mcm-kubevirt-$$platform.tar.gz); rm -r bin/krew/$$platform; \
		sed -i "s/{$$platform}/$${sum%% *}/" bin/krew/mcm-kubevirt.yaml; \
	done

.PHONY: charts
charts: ## Package the Helm charts of the driver, and those with which Gardener installs the extension, into bin/charts.
	@echo 'Build Helm, which takes minutes the first time ...' && $(HELM) version --short
	@rm -rf bin/charts && for chart in $(CHARTS); do \
		echo "Package $$chart ..."; \
		$(HELM) package --destination=bin/charts "$$chart" || exit 1; \
	done

.PHONY: push-charts
push-charts: ## Push the charts in bin/charts to REPOSITORY (oci://...). CI calls it for a release, after a login.
	@for chart in bin/charts/*.tgz; do $(HELM) push "$$chart" '$(REPOSITORY)' || exit 1; done

.PHONY: test
test: test-unit test-integration ## Run all tests: the unit tests first, then the suites against real control planes. KUBERNETES=1.32, KUBEVIRT=1.8 and CDI=1.64 choose versions.

.PHONY: quick
quick: ## Vet the code, and run the unit tests of the packages that changed since BASE (default origin/main), without the lab and without hostile servers.
	@for module in . image extension; do (cd "$$module" && packages=$$( \
		{ git diff --relative --name-only --diff-filter=d '$(BASE)' -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; } | \
		grep -vE '^(image|extension)/|test/(integration|lab/modules)/' | xargs -r -n1 dirname | sort -u | sed 's,^,./,'); \
		[ -z "$$packages" ] || { echo "== $$module" && go vet ./... && $(GOTEST) -skip='^TestHostile' $$packages; }) || exit 1; done

.PHONY: test-unit
test-unit: ## Run the unit tests.
	$(GOTEST) $(RACE) -parallel=$(UNIT_PARALLEL) -skip='^$(HOSTILE)$$' $$(go list ./... | grep -v /test/integration)
	$(GOTEST) -parallel=$(UNIT_PARALLEL) -run='^$(HOSTILE)$$' $$(grep -rlE --include='*_test.go' 'func $(HOSTILE)\(' cmd pkg tools | xargs -n1 dirname | sort -u | sed 's,^,./,')
	cd image && $(GOTEST) ./...
	cd schema && $(GOTEST) ./...
	cd extension && $(GOTEST) $$(go list ./... | grep -v /test/integration)

.PHONY: test-integration
test-integration: ## Run the suites of the driver and the extension against real control planes (builds them the first time).
	@$(LAB) build --gardener --monitoring
	@# One after the other: at the same time, they keep two slow cores so busy that API servers do not answer in time.
	@$(MAKE) --no-print-directory test-driver test-extension

.PHONY: test-driver
test-driver: ## Run the suites of the driver.
	$(INTEGRATION) -p=$(TEST_PACKAGES) -parallel=$(TEST_PARALLEL) -timeout=$(TEST_TIMEOUT) -skip='$(LONG)' -v

.PHONY: test-extension
test-extension: ## Run the suite of the extension.
	cd extension && $(GOTEST) -parallel=8 -timeout=$(TEST_TIMEOUT) -v ./test/integration

.PHONY: test-provider
test-provider: ## Run machine-controller-manager's own integration suite for providers (three minutes; part of make soak).
	@$(LAB) build
	cd test/integration/provider && $(GOTEST) -timeout=$(TEST_TIMEOUT) -v ./...

.PHONY: test-node
test-node: ## Run the driver and a Shoot on real provider nodes: kubelet, virt-handler, QEMU, live migration, guests that join, without KVM. Skipped if packages are missing, unless LAB_NODES=required.
	$(GOTEST) -tags=node -timeout=$(NODE_TIMEOUT) -v ./test/integration/node
	cd extension && $(GOTEST) -tags=node -timeout=$(NODE_TIMEOUT) -v ./test/node

.PHONY: test-migration
test-migration: ## Live-migrate one machine between real provider nodes, as a part of make verify: the short half of make test-node. KUBEVIRT=1.8 chooses a version.
	$(GOTEST) -tags=node -timeout=$(TEST_TIMEOUT) -run='^TestLiveMigration$$' -v ./test/integration/node

.PHONY: soak
soak: ## Run the long tests, with the race detector: thousands of machines, slow clones, long drains, every fault.
	@$(LAB) build
	@# One package at a time, since the tests with hundreds of machines need the whole capacity of a zone.
	$(INTEGRATION) $(RACE) -tags=soak -p=1 -parallel=8 -timeout=120m -run='$(LONG)|^TestCrashMatrix$$|^TestFiftyMachinesAtOnce$$|^TestContract$$' -v
	$(MAKE) test-provider
	cd extension && $(GOTEST) $(RACE) -parallel=$(UNIT_PARALLEL) $$(go list ./... | grep -v /test/integration)

.PHONY: bench
bench: ## Measure requests, times and memory against the lab, also beside Cluster API, far away and with thousands of machines, and the driver's computation per machine.
	@$(LAB) build
	$(GOTEST) -tags=bench -run='^TestBench$$' -timeout=60m -v ./test/integration/bench
	$(GOTEST) -tags=bench $(PROFILES) -run='^TestSize$$' -timeout=120m -v ./test/integration/bench
	$(GOTEST) -tags=bench -run='^TestPeers$$' -timeout=120m -v ./test/integration/bench
	$(GOTEST) -tags=bench -run='^TestPeersAtRest$$' -timeout=240m -v ./test/integration/bench
	$(GOTEST) -tags=bench -run='^TestDistance$$' -timeout=120m -v ./test/integration/bench
	cd extension && $(GOTEST) -tags=bench $(PROFILES) -run='^TestThousandShoots$$' -timeout=60m -v ./test/integration
	cd extension && $(GOTEST) -tags=bench -run='^(TestForeignClusters|TestHostileLists)$$' -v ./cmd/gardener-extension-provider-kubevirt ./pkg/providercluster
	$(GOTEST) -run '^$$' -bench . -benchmem ./api/... ./pkg/...

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (default 30s).
	@for module in . extension; do \
		cd '$(CURDIR)'/$$module; \
		for package in $$(go list ./... | grep -E '/(api|pkg)/'); do \
			for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
				echo "== $$package $$target"; \
				$(GOTEST) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
			done; \
		done; \
	done

.PHONY: mutate
mutate: ## Change one operator at a time in the packages that changed since BASE (default origin/main; empty for all), and run their unit tests. Lists the changes that no test notices.
	@go run ./test/mutation --base='$(BASE)' --gremlins='$(GREMLINS)'

.PHONY: lint
lint: ## Lint the code, the layout, the API over gRPC and the workflows.
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	cd image && $(GOLANGCI_LINT) run --allow-parallel-runners --config=../.golangci.yml ./...
	cd schema && $(GOLANGCI_LINT) run --allow-parallel-runners --config=../.golangci.yml ./...
	cd extension && $(GOLANGCI_LINT) run --allow-parallel-runners --config=../.golangci.yml ./...
	cd test/integration/provider && $(GOLANGCI_LINT) run --allow-parallel-runners --config=../../../.golangci.yml ./...
	$(BUF) lint
	$(ACTIONLINT) -shellcheck= -pyflakes=

.PHONY: vulncheck
vulncheck: ## Check the code that the programs call for known vulnerabilities. Needs https://vuln.go.dev.
	$(GOVULNCHECK) ./cmd/...
	cd extension && $(GOVULNCHECK) ./cmd/...

.PHONY: format
format: ## Format the code.
	$(GOLANGCI_LINT) fmt ./...
	cd image && $(GOLANGCI_LINT) fmt --config=../.golangci.yml ./...
	cd schema && $(GOLANGCI_LINT) fmt --config=../.golangci.yml ./...
	cd extension && $(GOLANGCI_LINT) fmt --config=../.golangci.yml ./...
	cd test/integration/provider && $(GOLANGCI_LINT) fmt --config=../../../.golangci.yml ./...
	$(BUF) format -w

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum.
	go mod tidy
	cd image && go mod tidy
	cd schema && go mod tidy
	cd extension && go mod tidy
	cd test/integration/provider && go mod tidy

.PHONY: reference
reference: ## Write the API references and the JSON Schemas from the Go types, in seconds.
	$(CRD_REF_DOCS) --source-path=./api/v1alpha1 --config=docs/api-reference.yaml --output-path=docs/api-reference.md
	cd extension && $(CRD_REF_DOCS) --source-path=./pkg/apis/kubevirt/v1alpha1 --config=docs/api-reference.yaml --output-path=docs/api-reference.md
	go run -C schema . --module=.. --package=./api/v1alpha1 --output=../docs/schemas ProviderSpec
	go run -C schema . --module=../extension --package=./pkg/apis/kubevirt/v1alpha1 --output=../docs/schemas \
		InfrastructureConfig ControlPlaneConfig WorkerConfig CloudProfileConfig WorkloadIdentityConfig

.PHONY: generate
generate: reference ## Generate code, the JSON Schemas, the reference pages, the tables of other pages, and the golden files.
	$(CONTROLLER_GEN) object paths=./api/v1alpha1/...
	cd extension && $(CONTROLLER_GEN) object paths=./pkg/apis/...
	cd extension && $(CONTROLLER_GEN) crd:maxDescLen=0 paths=github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1 output:crd:dir=charts/internal/shoot-crds/generated
	$(BUF) generate
	$(GOTEST) ./api/driver/v1 -run '^TestContract$$' -update
	$(GOTEST) ./pkg/render -run '^TestGolden$$' -update
	@# One test at a time, since several write tables of one page.
	for module in . extension; do cd '$(CURDIR)'/$$module && \
		$(GOTEST) $$(grep -rl --include='*_test.go' 'kubevirt/test/docs"' . | grep -v '^./extension/' | xargs -n1 dirname | sort -u) \
			-p=1 -parallel=1 -run='InDocs$$' -update-docs; \
	done

.PHONY: verify
verify: ## Run the checks of CI: tidy, generate, format, lint, image (of this architecture), test and test-migration. Fails if that changed a file.
	@before=$$(git status --porcelain --untracked-files=all; git diff HEAD | git hash-object --stdin); \
	$(MAKE) tidy generate format lint image test test-migration ARCHITECTURES="$$(go env GOHOSTARCH)"; \
	after=$$(git status --porcelain --untracked-files=all; git diff HEAD | git hash-object --stdin); \
	if [ "$$before" != "$$after" ]; then \
		echo "make verify changed these files; review and commit them:"; git status --short; git diff HEAD --stat; exit 1; \
	fi
