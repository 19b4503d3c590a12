// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// observer records the classes and kubeconfigs that it observes.
type observer struct{ observed []string }

func (o *observer) Observe(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	o.observed = append(o.observed, class.Name+" "+string(secret.Data["kubeconfig"]))
}

// TestObservers covers every call with a class and its Secret.
func TestObservers(t *testing.T) {
	t.Parallel()

	for _, method := range []string{"CreateMachine", "InitializeMachine", "GetMachineStatus", "DeleteMachine", "ListMachines"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()

			first := &observer{}
			second := &observer{}
			p := kubevirt.New(&recorder{err: spi.ErrUnavailable}, kubevirt.Options{
				CreationTimeout: 20 * time.Minute,
				Observers:       []kubevirt.Observer{first, second},
			})

			require.Error(t, calls()[method](t.Context(), p, validRequest()), "observers are notified of failing calls too")
			require.Equal(t, []string{"class k"}, first.observed)
			require.Equal(t, first.observed, second.observed)
		})
	}
}
