// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// TestValidateAnnotations refuses annotations with which network plugins connect a pod to a network that they name.
func TestValidateAnnotations(t *testing.T) {
	t.Parallel()

	policy, err := kubernetes.Manifests.ReadFile("provider-cluster/worker-machines.yaml")
	require.NoError(t, err)
	require.Contains(t, string(policy), "a.matches('"+connecting.String()+"')")

	p := &Pool{path: field.NewPath("worker")}
	require.Empty(t, p.ValidateAnnotations(nil))

	for key, refused := range map[string]bool{
		"ovn.kubernetes.io/logical_switch":             true,
		"ovn.kubernetes.io/ip_pool":                    true,
		"net.machines.ovn.kubernetes.io/ip_address":    true,
		"net.machines.kubernetes.io/logical_switch":    true,
		"k8s.ovn.org/primary-udn-ipamclaim":            true,
		"a.k8s.ovn.org/pod-networks":                   true,
		"kubevirt.io/allow-pod-bridge":                 false,
		"cluster-autoscaler.kubernetes.io/safe":        false,
		"example.com/logical_switch":                   false,
		"covn.kubernetes.io/safe":                      false,
		"descheduler.alpha.kubernetes.io/evict":        false,
		"scheduler.alpha.kubernetes.io/critical-pod-a": false,
	} {
		p.Config.VirtualMachineTemplate = &providerspec.VirtualMachineTemplate{}
		require.Empty(t, p.ValidateAnnotations(nil))

		p.Config.VirtualMachineTemplate.Spec.Template = &providerspec.VirtualMachineInstanceTemplate{
			Metadata: providerspec.ObjectMeta{Annotations: map[string]string{key: "shoot--bank--prod-storage"}},
		}

		errs := p.ValidateAnnotations(nil)
		if !refused {
			require.Empty(t, errs, key)

			continue
		}

		require.Len(t, errs, 1, key)
		require.Equal(t, "worker.providerConfig.virtualMachineTemplate.spec.template.metadata.annotations["+key+"]", errs[0].Field)
		require.ErrorContains(t, errs[0], "shoot--bank--prod-storage", "another value is another error")
		require.Empty(t, p.ValidateAnnotations(sets.New(key+"=shoot--bank--prod-storage")), "machines have it")
	}
}
