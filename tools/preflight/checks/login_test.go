// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtfake "kubevirt.io/client-go/kubevirt/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// TestLogins_Compare has identities with KubeVirt objects of these UIDs, or without one.
func TestLogins_Compare(t *testing.T) {
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
			driver.Server = "https://driver"
			admin.Server = "https://admin"

			if tc.sameServer {
				admin.Server = driver.Server
			}

			l := &logins{driver: driver, viewer: admin}
			if tc.refused {
				l.driver = nil
			}

			var got []Level
			for _, r := range l.compare(t.Context(), driver, admin) {
				got = append(got, r.Level)
				require.Contains(t, r.Message, "https://driver")
				require.Contains(t, r.Message, "https://admin")
			}

			require.Equal(t, tc.want, got, tc.reason)
			require.Empty(t, l.compare(t.Context(), driver, nil), "there is one identity")
		})
	}
}

// seeing returns an identity that sees a KubeVirt object with a UID; none if it is empty.
func seeing(name, uid string) *reader {
	var objects []runtime.Object
	if uid != "" {
		objects = append(objects, &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt", UID: types.UID(uid)}})
	}

	return &reader{Identity: Identity{Name: name, From: "file"}, clients: &providerapi.Clients{KubeVirt: kubevirtfake.NewSimpleClientset(objects...)}}
}

// TestLogins_Add has an admin whose kubeconfig names another namespace than the driver's.
func TestLogins_Add(t *testing.T) {
	t.Parallel()

	l := &logins{}
	driver := user("machines", "")
	admin := user("default", "jane")
	l.add(driver)
	l.add(&reader{}) // Its kubeconfig is invalid.
	l.add(admin)

	require.Equal(t, "machines", l.namespace)
	require.Equal(t, "machines", driver.namespace())
	require.Equal(t, "machines", admin.namespace(), "it reads the namespace of the machines")
	require.Len(t, l.identities, 3)
}

func TestCheckLifetime(t *testing.T) {
	t.Parallel()

	const day = 24 * time.Hour

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	tests := map[string]struct {
		reason    string
		age, left time.Duration
		want      Level
	}{
		"Fresh":      {reason: "a certificate for a year", age: day, left: 364 * day, want: OK},
		"Week":       {reason: "it expires within a week", age: 359 * day, left: 6 * day, want: Warning},
		"Over":       {reason: "it has expired", age: 366 * day, left: -day, want: Error},
		"ShortFresh": {reason: "it is renewed every day", age: 4 * time.Hour, left: 20 * time.Hour, want: OK},
		"ShortOld":   {reason: "the renewal is late", age: 20 * time.Hour, left: 4 * time.Hour, want: Warning},
		"NoBegin":    {reason: "its start is unknown", age: -1, left: 6 * day, want: Warning},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := kubeconfig.Expiry{Kind: "token", End: now.Add(tc.left)}
			if tc.age >= 0 {
				e.Begin = now.Add(-tc.age)
			}

			got := checkLifetime(subject{}, e, now, "renew them")[0]
			require.Equal(t, tc.want, got.Level, tc.reason)
			require.Equal(t, tc.want != OK, got.Remedy != "", "what is not ok has a remedy")
		})
	}
}

func TestReader_Renewal(t *testing.T) {
	t.Parallel()

	r := user("machines", "system:serviceaccount:machines:driver")
	require.Contains(t, r.renewal(), "kubectl --namespace machines create token driver --duration=720h")

	r = user("machines", "jane")
	require.NotContains(t, r.renewal(), "kubectl")
	require.Contains(t, r.renewal(), "jane")
}
