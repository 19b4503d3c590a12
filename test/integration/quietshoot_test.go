package integration

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// quietShoot has a machine in another shoot's provider namespace, and controllers of its own. Nothing ever happens to it.
type quietShoot struct {
	*shoot

	failures func() []string
	machines map[string]*v1alpha1.Machine
	// objects are the UIDs of what its machines are made of.
	objects map[string]types.UID
	// all are the names of all objects of the provider namespace, as long as the other shoot has none.
	all []string
}

// newQuietShoot makes a quiet shoot beside one that has no machines yet.
func newQuietShoot(t *testing.T, beside *shoot) *quietShoot {
	t.Helper()

	q := &quietShoot{shoot: newShoot(t)}
	q.ProviderNamespace, q.ProviderKubeconfig = beside.ProviderNamespace, beside.ProviderKubeconfig
	q.applyCredentials(t)
	q.runControllers(t, lifeArgs()...)
	q.failures = q.shoot.failures(t)
	// It needs the image that the other shoot needs.
	q.addPool(t, q.Name+"-quiet", 1, q.spec("zone-a", importedRoot))
	q.machines = q.awaitRunning(t, 1)
	q.objects = q.uids(t)
	q.all = q.everything(t)

	return q
}

// everything returns the names of all objects of the provider namespace, when CDI has removed those that it needs while it clones.
func (q *quietShoot) everything(t *testing.T) []string {
	t.Helper()

	var all []string

	eventually(t, "CDI's own volumes are gone", func(ctx context.Context) (bool, error) {
		var err error

		all, err = q.left(ctx)

		return !strings.Contains(strings.Join(all, "\n"), "prime-"), err
	})

	return all
}

// requireUntouched requires the shoot to be what it was.
func (q *quietShoot) requireUntouched(t *testing.T) {
	t.Helper()
	require.Empty(t, q.failures())

	for name, now := range q.awaitRunning(t, len(q.machines)) {
		require.Equal(t, q.machines[name].UID, now.UID)
	}

	require.Equal(t, q.objects, q.uids(t))
}

// uids returns the UIDs of what its machines are made of, and of the image they are made from.
func (q *quietShoot) uids(t *testing.T) map[string]types.UID {
	t.Helper()

	uids := q.identities(t)
	maps.Copy(uids, q.awaitImages(t, 1))

	return uids
}
