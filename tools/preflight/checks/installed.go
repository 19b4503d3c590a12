package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// errNotInstalled means that the API server does not know the type, or that the one object that
// represents the installation does not exist.
var errNotInstalled = errors.New("not installed")

// only returns the object that represents an installation.
func only[T any](found []T, err error) (*T, error) {
	switch {
	case unknownType(err), err == nil && len(found) == 0:
		return nil, errNotInstalled
	case err != nil:
		return nil, err
	default:
		return &found[0], nil
	}
}

// getKubeVirt returns the KubeVirt object. Every authenticated user may list them
// (pkg/virt-operator/resource/generate/rbac/cluster.go).
func (i *identity) getKubeVirt(ctx context.Context) (*kubevirtv1.KubeVirt, error) {
	return only(listFew[kubevirtv1.KubeVirt](ctx, i.clients.KubeVirt.KubevirtV1().KubeVirts(metav1.NamespaceAll)))
}

func (c *checker) checkKubeVirt(ctx context.Context) []Result {
	s := c.viewer.about(checkKubeVirt, "KubeVirt")

	found, err := c.kubeVirt()

	switch {
	case errors.Is(err, errNotInstalled):
		return s.fail("is not installed", "install KubeVirt: https://kubevirt.io/user-guide/cluster_admin/installation")
	case err != nil:
		return s.notChecked(err, "kubectl get kubevirts --all-namespaces")
	}

	i := installation{version: found.Status.ObservedKubeVirtVersion, phase: string(found.Status.Phase)}
	for _, condition := range found.Status.Conditions {
		i.add(string(condition.Type), condition.Status, condition.Message)
	}

	return append(i.results(s, kubectlIn(found.Namespace, "describe kubevirt", found.Name)), c.checkKubernetes(ctx, found)...)
}

func (c *checker) checkCDI(ctx context.Context) []Result {
	s := c.viewer.about(checkCDI, "CDI")

	found, err := only(listFew[cdiv1beta1.CDI](ctx, c.viewer.clients.CDI.CdiV1beta1().CDIs()))
	if err != nil {
		return c.withoutCDI(s, err)
	}

	i := installation{version: found.Status.ObservedVersion, phase: string(found.Status.Phase)}
	for _, condition := range found.Status.Conditions {
		i.add(string(condition.Type), condition.Status, condition.Message)
	}

	return i.results(s, kubectl("describe cdi", found.Name))
}

// withoutCDI returns the result if the CDI object cannot be read. An identity that may not read it
// can still list StorageProfiles, as every authenticated user can
// (pkg/operator/resources/cluster/rbac.go of CDI).
func (c *checker) withoutCDI(s subject, err error) []Result {
	if !errors.Is(err, errNotInstalled) && !unknownType(c.storages().profileErr) {
		return s.notChecked(err, "kubectl get cdis")
	}

	remedy := "install CDI: https://kubevirt.io/user-guide/storage/containerized_data_importer"

	for _, class := range c.classes {
		if len(class.vm.Spec.DataVolumeTemplates) > 0 {
			return s.fail("is not installed, and MachineClass "+class.Name+" has DataVolumes", remedy+"; or use providerSpec.rootVolume.containerDisk")
		}
	}

	return s.warn("is not installed, but these classes do not need it", remedy)
}

// installation is an operator's report on its installation.
type installation struct {
	version, phase string
	// bad are the conditions of an installation that is not ready.
	bad []string
}

func (i *installation) add(condition string, status corev1.ConditionStatus, message string) {
	if condition == "Available" && status != corev1.ConditionTrue || condition == "Degraded" && status == corev1.ConditionTrue {
		i.bad = append(i.bad, fmt.Sprintf("%s is %s: %s", condition, status, message))
	}
}

func (i *installation) results(s subject, describe string) []Result {
	const deployed = "Deployed" // KubeVirt and CDI have the same phases.

	version := cmp.Or(i.version, "unknown version")

	switch {
	case len(i.bad) > 0:
		return s.fail(version+" is not ready: "+strings.Join(i.bad, "; "), describe)
	case i.phase != deployed:
		return s.fail(fmt.Sprintf("%s is in phase %q, not %s", version, i.phase, deployed), describe)
	default:
		return s.ok(version + " is ready")
	}
}
