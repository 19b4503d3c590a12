// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSetEnvironment_ReplacesAndKeeps(t *testing.T) {
	t.Parallel()
	set, err := decode(`{kind: DaemonSet, metadata: {name: x}, spec: {template: {spec: {containers: [
		{name: a, env: [{name: KEPT, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: SET, value: old}]}, {name: b}]}}}}`)
	require.NoError(t, err)
	require.NoError(t, setEnvironment(set, map[string]string{"SET": "new"}))
	containers, found, err := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.True(t, found)
	want := object{"name": "SET", "value": "new"}
	require.Equal(t, []any{
		object{"name": "KEPT", "valueFrom": object{"fieldRef": object{"fieldPath": "spec.nodeName"}}}, want,
	}, containers[0].(object)["env"])
	require.Equal(t, []any{want}, containers[1].(object)["env"])
}
