package main

import (
	"context"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// witness notes, in their order, what it is told and what it is asked for.
type witness struct {
	driver.Driver

	notes []string
}

func (w *witness) Seen(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	w.notes = append(w.notes, "seen "+class.Name+" "+string(secret.Data["kubeconfig"]))
}

func (w *witness) ListMachines(_ context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	w.notes = append(w.notes, "list "+req.MachineClass.Name)

	return &driver.ListMachinesResponse{MachineList: map[string]string{"id": "name"}}, nil
}

// TestObserved has the observer know of a listing before the driver does.
func TestObserved(t *testing.T) {
	t.Parallel()

	w := &witness{}
	answer, err := (&observed{Driver: w, observer: w}).ListMachines(t.Context(), &driver.ListMachinesRequest{
		MachineClass: &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}},
		Secret:       &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("k")}},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"id": "name"}, answer.MachineList)
	require.Equal(t, []string{"seen class k", "list class"}, w.notes)
}
