// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// quietShoot has a machine in another shoot's provider namespace, and its own
// controllers. No test changes it.
type quietShoot struct {
	*harness.Shoot

	states *harness.MachineStates
	// machines are the UIDs of its Machines, by name.
	machines map[string]types.UID
	// objects are the UIDs of all its objects on the provider cluster.
	objects map[string]types.UID
	// all are the names of all objects of the provider namespace while the other shoot has none.
	all []string
}

// newQuietShoot creates a quiet shoot beside a shoot that has no machines yet.
func newQuietShoot(t *testing.T, beside *harness.Shoot) *quietShoot {
	t.Helper()

	q := &quietShoot{Shoot: harness.NewShoot(t), states: &harness.MachineStates{}}
	q.ProviderNamespace = beside.ProviderNamespace
	q.ProviderKubeconfig = beside.ProviderKubeconfig
	q.ApplyCredentials(t)
	q.RunControllers(t, lifeArgs()...)
	q.states.Observe(t, q.Shoot)
	// It uses the same image as the other shoot.
	q.AddPool(t, q.Name+"-quiet", 1, q.Spec("zone-a", harness.ImportedRoot))
	q.machines = uidsOf(q.AwaitRunning(t, 1))
	q.all = q.everything(t)
	q.objects = q.uids(t)
	require.Len(t, q.objects, len(q.all))

	return q
}

// everything returns the names of all objects of the provider namespace, after CDI has removed its
// temporary objects for clones.
func (q *quietShoot) everything(t *testing.T) []string {
	t.Helper()

	var all []string

	harness.Eventually(t, "CDI's temporary volumes are gone", func(ctx context.Context) (bool, error) {
		var err error

		all, err = q.Leftovers(ctx)

		return !strings.Contains(strings.Join(all, "\n"), "prime-"), err
	})

	return all
}

// requireUntouched requires that the shoot has not changed at any time, and that the other shoot's
// driver has not tried to change it.
func (q *quietShoot) requireUntouched(t *testing.T, other *harness.Line) {
	t.Helper()
	require.Empty(t, q.states.Failures())
	require.Empty(t, q.states.Lapses())
	require.Equal(t, q.machines, uidsOf(q.AwaitRunning(t, len(q.machines))))
	require.Equal(t, q.objects, q.uids(t))

	for object := range q.objects {
		_, name, _ := strings.Cut(object, " ")
		require.Empty(t, other.Written(name))
	}
}

func uidsOf(machines map[string]*v1alpha1.Machine) map[string]types.UID {
	uids := map[string]types.UID{}
	for name, m := range machines {
		uids[name] = m.UID
	}

	return uids
}

// uids returns the UIDs of its machines' objects, and of their image.
func (q *quietShoot) uids(t *testing.T) map[string]types.UID {
	t.Helper()

	uids := identities(t, q.Shoot)
	ours := metav1.ListOptions{LabelSelector: apiv1alpha1.TagCluster + "=" + q.Namespace}

	secrets, err := q.Kube.CoreV1().Secrets(q.ProviderNamespace).List(t.Context(), ours)
	require.NoError(t, err)

	for i := range secrets.Items {
		uids["Secret "+secrets.Items[i].Name] = secrets.Items[i].UID
	}

	volumes, err := q.CDI.CdiV1beta1().DataVolumes(q.ProviderNamespace).List(t.Context(), ours)
	require.NoError(t, err)

	for i := range volumes.Items {
		name := volumes.Items[i].Name
		uids["DataVolume "+name] = volumes.Items[i].UID

		claim, err := q.Kube.CoreV1().PersistentVolumeClaims(q.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)

		uids["PersistentVolumeClaim "+name] = claim.UID
	}

	return uids
}
