package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

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

func TestCheckNamespace(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason    string
		namespace *corev1.Namespace
		want      Level
		message   string
	}{
		"Exists":  {reason: "it is there", namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "machines"}}, want: OK},
		"Missing": {reason: "it is a typo", want: Error, message: "does not exist"},
		"Deleted": {
			reason: "nothing can be created in it", want: Error, message: "is being deleted",
			namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "machines", DeletionTimestamp: ptr.To(metav1.Now()), Finalizers: []string{"kubernetes"}}},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var objects []runtime.Object
			if tc.namespace != nil {
				objects = append(objects, tc.namespace)
			}

			got := classOn(t, `{"spec":{"template":{"spec":{}}}}`, objects...).checkNamespace(t.Context())
			require.Len(t, got, 1)
			require.Equal(t, tc.want, got[0].Level, tc.reason)
			require.Contains(t, got[0].Message, tc.message)
		})
	}
}
