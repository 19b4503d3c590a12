// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

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
			reason:    "nothing can be created in it",
			want:      Error,
			message:   "is being deleted",
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

			got := checkNamespace(t.Context(), readerOn(t, objects...), nil)
			require.Len(t, got, 1)
			require.Equal(t, tc.want, got[0].Level, tc.reason)
			require.Contains(t, got[0].Message, tc.message)
		})
	}
}
