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

// observer remembers what it was told.
type observer struct{ seen []string }

func (o *observer) Seen(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	o.seen = append(o.seen, class.Name+" "+string(secret.Data["kubeconfig"]))
}

// TestObserversAreTold covers every call that carries a class and its Secret.
func TestObserversAreTold(t *testing.T) {
	t.Parallel()

	for _, method := range []string{"CreateMachine", "InitializeMachine", "GetMachineStatus", "DeleteMachine", "ListMachines"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()

			first, second := &observer{}, &observer{}
			p := kubevirt.New(&recorder{err: spi.ErrUnavailable}, kubevirt.Options{
				CreationTimeout: 20 * time.Minute, Observers: []kubevirt.Observer{first, second},
			})

			require.Error(t, calls()[method](t.Context(), p, validRequest()), "credentials count also where they fail")
			require.Equal(t, []string{"class k"}, first.seen)
			require.Equal(t, first.seen, second.seen)
		})
	}
}
