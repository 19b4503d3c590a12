// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shootServer is the API server of a shoot; the response to a list of its nodes is given.
func shootServer(nodes any) server { return server{"/api/v1/nodes": nodes} }

// access is the Secret with gardenlet's kubeconfig for a shoot.
func access(namespace, kubeconfig string) client.Object {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gardener-internal"},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}
}

// TestNodesCheck_FailedMachine reports the driver's error with Gardener's code.
func TestNodesCheck_FailedMachine(t *testing.T) {
	t.Parallel()

	deployment := &machinev1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: "pool"},
		Status: machinev1alpha1.MachineDeploymentStatus{FailedMachines: []*machinev1alpha1.MachineSummary{{
			Name:          "m",
			LastOperation: machinev1alpha1.LastOperation{Description: "machine codes error: code = [ResourceExhausted] message = [QuotaExceeded: ResourceQuota machines]"},
		}}},
	}
	seed := newSeed(t, "", deployment, access(request.Namespace, shootServer(&corev1.NodeList{}).start(t)))

	result, err := (&nodesCheck{seed: seed}).Check(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, gardencorev1beta1.ConditionFalse, result.Status)
	require.Contains(t, result.Detail, "ResourceQuota machines")
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorInfraQuotaExceeded}, result.Codes)
}

// TestNodesCheck_ShootWithoutAccess requires an error of the check: nothing is known about the nodes.
func TestNodesCheck_ShootWithoutAccess(t *testing.T) {
	t.Parallel()

	_, err := (&nodesCheck{seed: newSeed(t, "")}).Check(t.Context(), request)
	require.True(t, apierrors.IsNotFound(err), err)
}

// TestNodesCheck_ConcurrentShoots checks a healthy shoot and one whose API server fails at the same time.
func TestNodesCheck_ConcurrentShoots(t *testing.T) {
	t.Parallel()

	failing := status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "broken")
	seed := newSeed(t, "", access("healthy", shootServer(&corev1.NodeList{}).start(t)), access("failing", shootServer(failing).start(t)))
	check := &nodesCheck{seed: seed}

	var running sync.WaitGroup

	results := make(chan error, 40)

	for range cap(results) / 2 {
		for namespace, fails := range map[string]bool{"healthy": false, "failing": true} {
			running.Go(func() {
				_, err := check.Check(t.Context(), types.NamespacedName{Namespace: namespace, Name: "w"})
				if (err != nil) != fails {
					results <- fmt.Errorf("%s: %w", namespace, err)
				}
			})
		}
	}

	running.Wait()
	close(results)

	for err := range results {
		require.NoError(t, err)
	}
}
