package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// errNotInstalled means that the type is known, but the one object that
// represents the installation does not exist.
var errNotInstalled = errors.New("not installed")

// getKubeVirt returns the KubeVirt object. Every authenticated user may list them
// (pkg/virt-operator/resource/generate/rbac/cluster.go).
func (i *identity) getKubeVirt(ctx context.Context) (*kubevirtv1.KubeVirt, error) {
	found, err := listFew[kubevirtv1.KubeVirt](ctx, i.clients.KubeVirt.KubevirtV1().KubeVirts(metav1.NamespaceAll), 2)

	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, errNotInstalled
	default:
		return &found[0], nil
	}
}

func (c *checker) checkKubeVirt(context.Context) []Result {
	const command = "kubectl get kubevirts --all-namespaces"

	v, subject := view{identity: c.viewer}, "KubeVirt"

	found, err := c.kubeVirt()

	switch {
	case unknownType(err), errors.Is(err, errNotInstalled):
		return []Result{v.fail(checkKubeVirt, subject, "is not installed", "install KubeVirt: https://kubevirt.io/user-guide/cluster_admin/installation")}
	case err != nil:
		return []Result{v.notChecked(checkKubeVirt, subject, err, command)}
	}

	var bad []string

	for _, condition := range found.Status.Conditions {
		if condition.Type == kubevirtv1.KubeVirtConditionAvailable && condition.Status != corev1.ConditionTrue ||
			condition.Type == kubevirtv1.KubeVirtConditionDegraded && condition.Status == corev1.ConditionTrue {
			bad = append(bad, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		}
	}

	return []Result{installation{
		version: found.Status.ObservedKubeVirtVersion, phase: string(found.Status.Phase), deployed: string(kubevirtv1.KubeVirtPhaseDeployed), bad: bad,
		describe: kubectlIn(found.Namespace, "describe kubevirt", found.Name),
	}.result(v, checkKubeVirt, subject)}
}

func (c *checker) checkCDI(ctx context.Context) []Result {
	const command = "kubectl get cdis"

	v, subject := view{identity: c.viewer}, "CDI"

	list, err := listFew[cdiv1beta1.CDI](ctx, c.viewer.clients.CDI.CdiV1beta1().CDIs(), 2)
	if err == nil && len(list) == 0 {
		err = errNotInstalled
	}

	if err != nil {
		return []Result{c.withoutCDI(ctx, v, subject, err, command)}
	}

	found := &list[0]

	var bad []string

	for _, condition := range found.Status.Conditions {
		if string(condition.Type) == "Available" && condition.Status != corev1.ConditionTrue || string(condition.Type) == "Degraded" && condition.Status == corev1.ConditionTrue {
			bad = append(bad, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		}
	}

	return []Result{installation{
		version: found.Status.ObservedVersion, phase: string(found.Status.Phase), deployed: "Deployed", bad: bad,
		describe: kubectl("describe cdi", found.Name),
	}.result(v, checkCDI, subject)}
}

// withoutCDI returns the result if the CDI object cannot be read. An identity that may not read it
// can still read CDI's configuration, as every authenticated user can
// (pkg/operator/resources/cluster/rbac.go of CDI).
func (c *checker) withoutCDI(ctx context.Context, v view, subject string, err error, command string) Result {
	_, config := ask(ctx, func(ctx context.Context) (*cdiv1beta1.CDIConfig, error) {
		return c.viewer.clients.CDI.CdiV1beta1().CDIConfigs().Get(ctx, "config", metav1.GetOptions{})
	})

	if !unknownType(err) && !errors.Is(err, errNotInstalled) && !unknownType(config) {
		return v.notChecked(checkCDI, subject, err, command)
	}

	remedy := "install CDI: https://kubevirt.io/user-guide/storage/containerized_data_importer"

	for i := range c.classes {
		if len(c.classes[i].vm.Spec.DataVolumeTemplates) > 0 {
			return v.fail(checkCDI, subject, "is not installed, and MachineClass "+c.classes[i].Name+" has DataVolumes",
				remedy+"; or use providerSpec.rootVolume.containerDisk")
		}
	}

	return v.warn(checkCDI, subject, "is not installed, but these classes do not need it", remedy)
}

// installation is an operator's report on its installation.
type installation struct {
	version, phase, deployed string
	bad                      []string
	describe                 string
}

func (i installation) result(v view, check, subject string) Result {
	version := i.version
	if version == "" {
		version = "unknown version"
	}

	switch {
	case len(i.bad) > 0:
		return v.fail(check, subject, version+" is not ready: "+strings.Join(i.bad, "; "), i.describe)
	case i.phase != i.deployed:
		return v.fail(check, subject, fmt.Sprintf("%s is in phase %q, not %s", version, i.phase, i.deployed), i.describe)
	default:
		return v.ok(check, subject, version+" is ready")
	}
}
