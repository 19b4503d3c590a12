package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtfake "kubevirt.io/client-go/kubevirt/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// TestCheckSameCluster has identities with KubeVirt objects of these UIDs, or without one.
func TestCheckSameCluster(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason        string
		driver, admin string
		// refused is set if the driver cannot log in, and sameServer if both kubeconfigs name one server.
		refused, sameServer bool
		want                []Level
	}{
		"Same":           {reason: "a cluster may have several names", driver: "a", admin: "a"},
		"Other":          {reason: "the admin's view does not apply", driver: "a", admin: "b", want: []Level{Error}},
		"OtherWithout":   {reason: "a seed has no KubeVirt; it need not be installed there", driver: "a", want: []Level{Error}},
		"DriverWithout":  {reason: "the Secret leads to another cluster", admin: "a", want: []Level{Error}},
		"BothWithout":    {reason: "they may be the same", want: []Level{Warning}},
		"NotInstalled":   {reason: "it is one server", sameServer: true},
		"DriversRefused": {reason: "its cluster is not known", driver: "a", admin: "a", refused: true, want: []Level{Warning}},
		"SameRefused":    {reason: "it is one server", driver: "a", admin: "a", refused: true, sameServer: true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			driver, admin := seeing(Driver, tc.driver), seeing(Admin, tc.admin)
			driver.Server, admin.Server = "https://driver", "https://admin"

			if tc.sameServer {
				admin.Server = driver.Server
			}

			c := &checker{driver: driver, viewer: admin}
			if tc.refused {
				c.driver = nil
			}

			var got []Level
			for _, r := range c.checkSameCluster(t.Context(), driver, admin) {
				got = append(got, r.Level)
				require.Contains(t, r.Message, "https://driver")
				require.Contains(t, r.Message, "https://admin")
			}

			require.Equal(t, tc.want, got, tc.reason)
			require.Empty(t, c.checkSameCluster(t.Context(), driver, nil), "there is one identity")
		})
	}
}

// seeing returns an identity that sees a KubeVirt object with a UID; none if it is empty.
func seeing(name, uid string) *identity {
	var objects []runtime.Object
	if uid != "" {
		objects = append(objects, &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt", UID: types.UID(uid)}})
	}

	return &identity{Identity: Identity{Name: name, From: "file"}, clients: &providerapi.Clients{KubeVirt: kubevirtfake.NewSimpleClientset(objects...)}}
}
