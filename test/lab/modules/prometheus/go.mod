module github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/modules/prometheus

go 1.26.2

require (
	github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring v0.86.2
	github.com/prometheus/prometheus v0.307.3
	sigs.k8s.io/yaml v1.6.0
)
