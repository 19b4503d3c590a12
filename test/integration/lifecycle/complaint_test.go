// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// complaint is a part of the error that the provider cluster reports after KubeVirt has accepted a
// VirtualMachine.
type complaint string

const (
	// silent means that the machine never runs, without an error that is the same in every run.
	silent complaint = ""
	// accepted means that this KubeVirt has no objection: it creates the instance.
	accepted complaint = "accepted"
)

// await waits until the provider cluster has reacted to a VirtualMachine as expected.
func (c complaint) await(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	switch c {
	case silent:
	case accepted:
		awaitInstance(t, s, name)
	default:
		awaitError(t, s, name, string(c))
	}
}

func awaitInstance(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	harness.Eventually(t, name+" has an instance", func(ctx context.Context) (bool, error) {
		_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return err == nil, err
	})
}

// awaitError waits until a VirtualMachine's status, or an Event of its pod, reports why it does not
// start.
func awaitError(t *testing.T, s *harness.Shoot, name, says string) {
	t.Helper()

	harness.Eventually(t, fmt.Sprintf("the status of %s, or an Event of its pod, contains %q", name, says), func(ctx context.Context) (bool, error) {
		vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		for _, condition := range vm.Status.Conditions {
			if strings.Contains(condition.Message, says) {
				return true, nil
			}
		}

		events, err := s.Kube.CoreV1().Events(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod"})
		if err != nil {
			return false, err
		}

		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return strings.HasPrefix(event.InvolvedObject.Name, "virt-launcher-"+name+"-") && strings.Contains(event.Message, says)
		}), nil
	})
}
