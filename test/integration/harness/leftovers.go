// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitEnd deletes all MachineDeployments and waits until nothing is left in either cluster.
func (s *Shoot) AwaitEnd(t *testing.T) {
	t.Helper()

	deployments := s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace)
	require.NoError(t, deployments.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))

	Eventually(t, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 0, err
	})
	s.RequireNothingLeft(t)
}

// RequireGone requires that neither the VirtualMachine nor its instance exists.
func (s *Shoot) RequireGone(t *testing.T, name string) {
	t.Helper()

	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.NotContains(t, left, "VirtualMachine "+name, "after success, no guest may run")
	require.NotContains(t, left, "VirtualMachineInstance "+name, "after success, no guest may run")
}

// AwaitImageEnd deletes the test's machines, and then the image.
func (s *Shoot) AwaitImageEnd(t *testing.T) {
	t.Helper()

	deployments := s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace)
	require.NoError(t, deployments.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.RequireNothingLeft(t, "DataVolume image", "PersistentVolumeClaim image")
}

// RequireDeleted requires that one call suffices: any error would mark the Machine as failed.
func RequireDeleted(t *testing.T, m *Machine, d driver.Driver) {
	t.Helper()

	require.NoError(t, m.Remove(t.Context(), d))

	_, err := m.Status(t.Context(), d)
	require.Equal(t, codes.NotFound, CodeOf(err))
}

// Leftovers returns the names of all objects in the shoot's provider namespace that belong to
// machines.
func (s *Shoot) Leftovers(ctx context.Context) ([]string, error) {
	var names []string

	vms, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range vms.Items {
		names = append(names, "VirtualMachine "+vms.Items[i].Name)
	}

	instances, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range instances.Items {
		names = append(names, "VirtualMachineInstance "+instances.Items[i].Name)
	}

	more, err := s.leftStorage(ctx)

	return append(names, more...), err
}

func (s *Shoot) leftStorage(ctx context.Context) ([]string, error) {
	var names []string

	volumes, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range volumes.Items {
		names = append(names, "DataVolume "+volumes.Items[i].Name)
	}

	claims, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range claims.Items {
		names = append(names, "PersistentVolumeClaim "+claims.Items[i].Name)
	}

	secrets, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range secrets.Items {
		names = append(names, "Secret "+secrets.Items[i].Name)
	}

	return names, nil
}

// RequireNothingLeft waits until the provider namespace holds only the named objects.
// Golden images outlive machines, so they are swept first, as after the deletion of the
// shoot's last MachineClass.
func (s *Shoot) RequireNothingLeft(t *testing.T, but ...string) {
	t.Helper()

	s.DeleteImages(t, s.Namespace)

	var left []string

	defer func() {
		if t.Failed() {
			t.Logf("left: %v", left)
		}
	}()

	Eventually(t, "nothing is left of the machines", func(ctx context.Context) (bool, error) {
		all, err := s.Leftovers(ctx)
		if err != nil {
			return false, err
		}

		left = nil

		for _, name := range all {
			if !strings.Contains(strings.Join(but, "\n"), name) {
				left = append(left, name)
			}
		}

		return len(left) == 0, nil
	})
	require.Empty(t, left)
}

// RequireClean waits until the provider namespace is empty. No controller is
// left that could clean up.
func (s *Shoot) RequireClean(t *testing.T) {
	t.Helper()

	Eventually(t, "nothing is left on the provider cluster", func(ctx context.Context) (bool, error) {
		left, err := s.Leftovers(ctx)

		return len(left) == 0, err
	})
}
