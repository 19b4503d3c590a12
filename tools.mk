# The only place where tool versions are pinned, except buf.gen.yaml for buf's plugins. Go builds
# each tool, through the Go module proxy, when it is first used.

GOLANGCI_LINT  := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.11.0
CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0
CRD_REF_DOCS   := go run github.com/elastic/crd-ref-docs@v0.2.0 --log-level=ERROR --renderer=markdown --templates-dir=$(CURDIR)/docs/templates
BUF            := go run github.com/bufbuild/buf/cmd/buf@v1.60.0
ACTIONLINT     := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
CRANE          := go run github.com/google/go-containerregistry/cmd/crane@v0.21.9
HELM           := go run helm.sh/helm/v4/cmd/helm@v4.2.3
GOVULNCHECK    := go run golang.org/x/vuln/cmd/govulncheck@v1.2.0
GREMLINS       := go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
