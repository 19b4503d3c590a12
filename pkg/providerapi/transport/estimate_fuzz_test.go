// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// FuzzEstimate estimates responses. A response that passes must be decoded quickly
// into every type that responses are decoded into.
func FuzzEstimate(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"` + hang + `"}}}}}}`,
		`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":1e2000000000}}}}}}`,
		`{"spec":{"template":{"spec":{"domain":{"resources":{"requests":{"memory":"1\u00652000000000","labels":"1e999","value":"1e9"}}}}}}}`,
		`{"metadata":{"labels":{"a":"12e45678"},"annotations":{"b":"` + hang + `"}},"spec":{"containers":[{"env":[{"name":"a","value":"12e45678"}]}]}}`,
		`{"spec":{"pvc":{"resources":{"requests":{"storage":" 1Gi "}}}},"status":{"allocatable":{"cpu":-1.5E-3}}}`,
		`{"type":"MODIFIED","object":{"a":[1,2,{"b":[[]]}]}}` + "\n" + `{"type":"DELETED","object":{}}`,
		`{"l\u0061bels":{"a":"1e2000000000"}}`, `[{"value":"1e2000000000"}]`, `{"a":"\\\"1e2000000000"}`, `]}],{`, `"1e2000000000"`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, body []byte) {
		if check(string(body)) != nil {
			return
		}

		began := time.Now()

		for _, into := range []any{
			&kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{}, &cdiv1beta1.DataVolume{}, &corev1.Pod{}, &corev1.Node{},
			&corev1.ResourceQuota{}, &metav1.Status{},
		} {
			_ = json.Unmarshal(body, into) // The body need not be of this type.
		}

		require.Less(t, time.Since(began), 5*time.Second, "it passed")
	})
}
