# Needs Go, make and git, and nothing else. `make` alone lists what there is.
.DEFAULT_GOAL := help
SHELL := /bin/sh

GO          ?= go
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE       ?= vmgroup:dev
IMAGE_NAME  ?= vmgroup
REPOSITORY  ?= https://github.com/OWNER/vmgroup
CA_BUNDLE   ?= /etc/ssl/certs/ca-certificates.crt
BUILDER     ?= $(shell if docker info >/dev/null 2>&1; then echo docker; else command -v buildah >/dev/null && echo buildah; fi)
FUZZTIME    ?= 10s
FUZZ        ?= Fuzz.*
SOAK        ?= 5m
WORLD       ?= 10m
PROMISES    ?= 20
STATES      ?= 3000000
BREAKS      ?= 2h
ROUND       ?= 1000
REPEAT      ?= 20
PACKED      ?= 4
PORT        ?= 8080
HEALTH_PORT ?= 8081
PLANT       ?= -planted
# The random lives of campaign, world and promises begin with this seed. Without one, each run of make draws its own, and prints it.
ifndef SEED
SEED        := $(shell expr 1 + $$(od -An -N4 -tu4 /dev/urandom))
endif
say-seed     = @echo 'The first seed is $(SEED). To repeat this run: make $@ SEED=$(SEED)'
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
CONTROLLER_GEN := sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
KREW        := sigs.k8s.io/krew/cmd/krew@v0.4.3
CRD         := charts/vmgroup/files/cluster/vm.codeconnect.vmworld.com_vmgroups.yaml
DEEPCOPY    := api/v1alpha1/zz_generated.deepcopy.go
SCHEMA      := manifests/vmgroup.schema.json

# $(call generate-into,<directory of the CRD>,<directory of the Go file>)
generate-into = $(GO) run $(CONTROLLER_GEN) paths=./api/... crd object output:crd:dir=$(1) output:object:dir=$(2)

# Whatever is compiled here has the same flags, so that the tests find in Go's cache what the build has put there. The binary has no debugging
# data (-s), so none is made. Inlining doesn't pay in vim25/types, 13 MB of types with hardly a function, and costs a tenth of a first build.
# Only the step lint vets.
export CGO_ENABLED ?= 0
ifeq ($(MAKELEVEL),0)
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -vet=off -ldflags=-s -gcflags=all=-dwarf=false '-gcflags=github.com/vmware/govmomi/vim25/types=-dwarf=false -l'
endif
# The garbage collector takes a tenth of the compiler's time, and a seventh of the tests', unless it has more memory.
compile     = GOGC=1600 GOMEMLIMIT=2GiB

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# $(call free,<port>,<variable>) fails if a program on this machine has the port: before the build, which can take minutes. Without bash, only the server
# says so.
free = @! { command -v bash >/dev/null && bash -c '</dev/tcp/127.0.0.1/$(1)' 2>/dev/null; } || \
	{ echo 'Another program on this machine has port $(1): end it, or choose another port: make $@ $(2)=1$(1)' >&2; exit 1; }

.PHONY: run
run: ## Serve the hooks on 127.0.0.1:8080 with an embedded vCenter (PORT=, HEALTH_PORT=)
	$(call free,$(PORT),PORT)
	$(call free,$(HEALTH_PORT),HEALTH_PORT)
	@$(MAKE) -s build
	bin/vmgroup serve --simulator --listen 127.0.0.1:$(PORT) --health-listen 127.0.0.1:$(HEALTH_PORT) --log-format console

.PHONY: demo
demo: ## Watch a group live, with an embedded vCenter (DEMO='-f group.yaml', PORT=)
	$(call free,$(PORT),PORT)
	@$(MAKE) -s build
	@exec bin/vmgroup demo --listen 127.0.0.1:$(PORT) $(DEMO)

# The packages without a test in a short run: they have benchmarks, other simulators, or tests that take minutes or a browser. They cost their compilation.
no_short := /test/(bench|browser|plain|promises)$$

.PHONY: test
test: HOW := -short
test: PKG ?= $(shell $(GO) list ./... | grep -vE '$(no_short)')
test: LEFT_OUT := test/bench, browser, plain and promises, most cases of tests with many, and the module manifests: "make test-all" runs all of these, "make test-race" looks for races, .ci/run asks other programs
test: ## Run the tests within minutes, few cases of each (PKG='./sync/planner manifests', TESTFLAGS='-run Drain')
	@$(report)

.PHONY: test-all
test-all: PKG ?= ./... manifests
test-all: LEFT_OUT := what only random lives (make campaign, world, promises), the race detector (make test-race) and other programs (.ci/run) find
test-all: ## Run the tests with all cases (PKG=, TESTFLAGS=)
	@$(report)

.PHONY: test-race
test-race: HOW := -race
test-race: PKG ?= ./...
test-race: LEFT_OUT := most cases of tests with many: "make test-all" runs all, without the race detector
test-race: export CGO_ENABLED := 1
test-race: ## Run the tests with the race detector, few cases of each; it needs a C compiler (PKG=, TESTFLAGS=)
	@echo '#include <stdlib.h>' | $$($(GO) env CC) -E - >/dev/null 2>&1 || { echo "the race detector needs a C compiler with its headers, such as Debian's gcc and libc6-dev" >&2; exit 1; }
	@$(report)

report = $(GO) run ./test/report -of "$$($(MAKE) -s --no-print-directory packages PKG='$(PKG)' | wc -l)" -left-out '$(LEFT_OUT)' -- \
	$(MAKE) -s --no-print-directory go-test HOW='$(HOW)' PKG='$(PKG)'
packages = $(filter-out manifests,$(PKG))
manifests = $(filter manifests,$(PKG))

.PHONY: packages
packages:
	@$(foreach dir,$(if $(packages),.) $(manifests),(cd $(dir) && $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(if $(filter .,$(dir)),$(packages),./...));)

# Go's cache doesn't see that files outside the module changed, and the tests of manifests read some.
.PHONY: go-test
go-test:
	@failed=; export $(compile); \
	$(if $(packages),$(GO) test -json $(HOW) -timeout 30m $(TESTFLAGS) $(packages) || failed=1;) \
	$(if $(manifests),(cd manifests && $(GO) test -json $(HOW) -count=1 $(TESTFLAGS) ./...) || failed=1;) \
	[ -z "$$failed" ]

.PHONY: bench
bench: ## Run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem -timeout 30m $(TESTFLAGS) ./...

# A finding is an input that fails again by itself: go test runs the new one with all others. A run may end badly without one:
# Go before 1.27 may say "context deadline exceeded" at the end of the time (golang/go#75804), and gives a worker up that
# was suspended for 10 s, as on a busy machine. Making inputs small is not worth its time here.
.PHONY: fuzz
fuzz: ## Run every fuzz target for 10 s (FUZZTIME=1m or 1000x, FUZZ=<pattern of their names>)
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; failed=; \
	for at in $$(grep -rE '^func ($(FUZZ))\(' --include='*_test.go' . | sed -E 's|^(.*)/[^/]*:func (Fuzz[^(]*).*|\1:\2|' | sort); do \
		dir=$${at%:*}; target=$${at#*:}; said=; \
		if $(GO) test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$dir" </dev/null >"$$out" 2>&1; then :; \
		elif $(GO) test -run "^$$target\$$" -count 1 "$$dir" >/dev/null 2>&1; then said=', ended early without a finding'; \
		else cat "$$out"; failed=1; said=', FAILED'; fi; \
		echo "$$dir $$target: $$(sed -n 's/^fuzz: .*execs: \([0-9]*\).*/\1/p' "$$out" | tail -n 1) inputs$$said"; \
	done; [ -z "$$failed" ]

# It continues after a violation, and fails at the end. Without the first go test, tests that don't compile would make it spin.
.PHONY: campaign
campaign: ## Make every vCenter call fail in every way, plant defects, then run randomized lives until stopped (BREAKS=... at most for the first, REPEAT=... times to repeat a life that finds a defect, ROUNDS=..., ROUND=... lives, SEED=...)
	$(say-seed)
	@export GOGC=1600; [ -n "$$TMPDIR" ] || [ ! -w /dev/shm ] || export GOTMPDIR="$${GOTMPDIR:-/tmp}" TMPDIR=/dev/shm; failed=; \
	$(GO) test -vet=off -run '^$$' ./test || exit; \
	lives() { $(GO) test -v -timeout 0 $(TESTFLAGS) ./test "$$@" -chaos.repeat $(REPEAT) || failed=1; }; \
	lives -run '^TestCampaign$$' -campaign.for $(BREAKS) -campaign.packed $(PACKED) -campaign.seed $(SEED); \
	lives -run '^TestLivesFindPlantedDefectsAndFailAgain$$'; \
	round=0; while [ "$$round" != '$(ROUNDS)' ]; do \
		seed=$$(($(SEED) + round * 100000)); round=$$((round + 1)); \
		lives -run '^TestChaos$$' -chaos.seed "$$seed" -chaos.seeds $(ROUND); \
		export CGO_ENABLED=1; lives -race -run '^TestChaos$$' -chaos.seed "$$((seed + 50000))" -chaos.seeds "$$(($(ROUND) / 16))"; export CGO_ENABLED=0; \
		[ -z "$$failed" ] || echo "round $$round: there were violations" >&2; \
	done; [ -z "$$failed" ]

.PHONY: world
world: ## Run the deterministic simulation, the model checker and the properties of plans, and make every answer and every assumption about vCenter wrong (WORLD=... or LIVES=..., STATES=..., SEED=...)
	$(say-seed)
	GOGC=400 $(GO) test -v -timeout 0 $(TESTFLAGS) ./test/world $(if $(LIVES),-world.lives $(LIVES),-world.for $(WORLD)) -world.seed $(SEED)
	GOGC=400 $(GO) test -v -timeout 0 $(TESTFLAGS) ./sync/planner -run SmallWorld -search.full -search.states $(STATES)
	GOGC=400 $(GO) test -timeout 0 $(TESTFLAGS) ./sync/planner -run PlantedDefects -search.full
	GOGC=400 $(GO) test -timeout 0 $(TESTFLAGS) ./sync/planner -skip 'SmallWorld|PlantedDefects' -rapid.checks 500 -rapid.seed $(SEED)
	GOGC=400 $(GO) test -timeout 0 $(TESTFLAGS) ./vsphere -run '^TestNoAnswerOfAVCenter' -answers.all
	GOGC=400 $(GO) test -timeout 0 $(TESTFLAGS) ./vsphere/check -run '^TestDeepCheck'

.PHONY: promises
promises: ## Check promises to users from outside, while the server is killed (PROMISES=... lives, SEED=...)
	$(say-seed)
	$(GO) test -v -count 1 -timeout 0 $(TESTFLAGS) ./test/promises -promises.lives $(PROMISES) -promises.seed $(SEED)

.PHONY: planted
planted: ## Plant each defect of test/planted, and print which tests see it (ONLY='precondition' for some)
	$(GO) test -v -count 1 -timeout 0 $(TESTFLAGS) ./test/planted $(PLANT) -planted.only '$(ONLY)'

.PHONY: soak
soak: ## Run five minutes of churn and look for leaks (SOAK=...)
	$(GO) test -run '^TestChurnLeaksNothing$$' -v -count 1 -timeout 60m $(TESTFLAGS) ./test -soak.for $(SOAK)

.PHONY: e2e
e2e: ## Ask a real Kubernetes API server (with METACONTROLLER=<binary> METACONTROLLER_CRDS=<file>: and Metacontroller)
	cd test/e2e && METACONTROLLER=$(abspath $(METACONTROLLER)) METACONTROLLER_CRDS=$(abspath $(METACONTROLLER_CRDS)) \
		$(GO) test -count=1 -timeout 60m $(TESTFLAGS) # without a pattern of packages, output comes as it is written

.PHONY: figures
figures: ## Measure what users see through Metacontroller, beside a bare loop (METACONTROLLER=<binary> METACONTROLLER_CRDS=<file>, FIGURES_VCENTER=<URL>, FIGURES=<end of a test's name>)
	cd test/e2e && METACONTROLLER=$(abspath $(METACONTROLLER)) METACONTROLLER_CRDS=$(abspath $(METACONTROLLER_CRDS)) \
		$(GO) test -count=1 -timeout 2h -v -run '^TestFigures$(or $(FIGURES),$$)' -figures $(TESTFLAGS)
	$(if $(FIGURES),,$(GO) test -run '^$$' -bench '^BenchmarkFleet$$' ./test/bench -fleet.sizes 40000)

.PHONY: judges
judges: ## Have Debian's cloud-init, netplan and Ansible, and Prometheus, read what the server writes (as root, on Debian)
	cd test/judges && $(GO) test -count=1 -v -timeout 30m $(TESTFLAGS)

.PHONY: browser
browser: ## Look at the page with Debian's chromium (SHOTS=<directory>: and keep pictures of it)
	$(GO) test -count=1 -v -timeout 10m ./test/browser -browser $(if $(SHOTS),-shots $(abspath $(SHOTS))) $(TESTFLAGS)

.PHONY: cover
cover: ## Say how much of each package its tests reach, and write coverage.out
	$(GO) test -timeout 30m -coverprofile=coverage.out ./...
	@$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: build
build: ## Build the static binary bin/vmgroup
	$(compile) $(GO) build -buildvcs=false -ldflags '-s -X main.version=$(VERSION)' -o bin/vmgroup ./cmd/vmgroup

.PHONY: generate
generate: ## Write the CRD, its JSON schema for editors and the deep-copy functions from api/v1alpha1
	$(call generate-into,$(dir $(CRD)),$(dir $(DEEPCOPY)))
	(cd release && $(GO) run ./schema) <$(CRD) >$(SCHEMA)

.PHONY: verify
verify: ## Check that generated files and go.mod are up to date
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(call generate-into,$$tmp,$$tmp); \
	(cd release && $(GO) run ./schema) <"$$tmp/$(notdir $(CRD))" >"$$tmp/schema"; \
	diff -u $(CRD) "$$tmp/$(notdir $(CRD))" && diff -u $(DEEPCOPY) "$$tmp/$(notdir $(DEEPCOPY))" && diff -u $(SCHEMA) "$$tmp/schema" || \
		{ echo "generated files are out of date: run make generate" >&2; exit 1; }
	@for dir in . manifests release test/e2e test/e2e/kubernetes test/judges test/linters; do \
		(cd $$dir && $(GO) mod tidy -diff) || { echo "go.mod or go.sum of $$dir is out of date: run go mod tidy there" >&2; exit 1; }; \
	done

.PHONY: lint
lint: ## Check format, go vet, staticcheck, gosec, kube-api-linter, kube-score, actionlint, and shellcheck where it is installed
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "run gofmt -w on:" $$bad >&2; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@set -e; for dir in manifests release test/e2e test/judges test/linters; do \
		(cd $$dir && set -x && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); \
	done
	cd test/linters && $(GO) test -count=1 -vet=off ./...
	$(GO) run $(ACTIONLINT)
	@if command -v shellcheck >/dev/null; then set -x; shellcheck .ci/run manifests/*.sh release/*.sh test/*.sh; else echo "shellcheck is not installed: scripts are not checked" >&2; fi

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what the binary, the tests and the release call (asks vuln.go.dev, or VULNDB=<URL>)
	@set -e; for dir in . manifests release test/e2e test/judges test/linters; do \
		(cd $$dir && tools=$$($(GO) list tool 2>/dev/null) && set -x && $(GO) run $(GOVULNCHECK) -test $(if $(VULNDB),-db $(VULNDB)) ./... $$tools); \
	done

.PHONY: image
image: ## Build the image vmgroup:dev, with docker if its daemon answers, else with buildah
	@case "$(BUILDER)" in \
	docker) set -x; docker build --build-arg VERSION=$(VERSION) --tag $(IMAGE) . ;; \
	buildah) $(MAKE) image-files && set -x && \
		buildah build $(BUILDAH_FLAGS) --target prebuilt --build-arg VERSION=$(VERSION) --tag $(IMAGE) . ;; \
	*) echo "make image needs docker with a running daemon, or buildah" >&2; exit 1 ;; \
	esac

.PHONY: image-files
image-files: build ## Put what the image holds into dist/image: binary, CA certificates, /tmp
	@test -r $(CA_BUNDLE) || { echo "no CA certificates in $(CA_BUNDLE): say where they are with CA_BUNDLE=<file>" >&2; exit 1; }
	rm -rf dist/image
	mkdir -p dist/image/etc/ssl/certs dist/image/tmp
	chmod 1777 dist/image/tmp
	cp bin/vmgroup dist/image/vmgroup
	cp $(CA_BUNDLE) dist/image/etc/ssl/certs/ca-certificates.crt
	chmod -R a+rX dist/image

.PHONY: release
release: ## Build all that a release has into dist/release (VERSION=vX.Y.Z, IMAGE_NAME=<registry>/vmgroup, REPOSITORY=<URL>, METACONTROLLER_CHART=<archive> or none)
	cd release && $(GO) run . -version '$(VERSION)' -image '$(IMAGE_NAME)' -repository '$(REPOSITORY)' -metacontroller-chart '$(if $(filter-out none,$(METACONTROLLER_CHART)),$(abspath $(METACONTROLLER_CHART)),$(METACONTROLLER_CHART))'

.PHONY: publish
publish: ## Push, sign and attest what make release built, as a tag's workflow does (REGISTRY=ghcr.io/OWNER; without: try it all on loopback)
	@KREW=$(KREW) release/publish.sh $(REGISTRY)

.PHONY: charts
charts: ## Compare the Helm chart with kustomize, and test the rest of release/ (METACONTROLLER_CHART=<archive>: and Metacontroller's with it)
	cd release && $(if $(METACONTROLLER_CHART),METACONTROLLER_CHART='$(abspath $(METACONTROLLER_CHART))' )$(GO) test -count=1 -vet=off -timeout 15m $(TESTFLAGS) ./...

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf bin dist coverage.out
