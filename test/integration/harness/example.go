// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// ApplyExample creates the objects of kubernetes/example for this shoot.
func (s *Shoot) ApplyExample(t *testing.T) {
	t.Helper()

	s.ApplyExampleClasses(t)
	s.ApplyExampleDeployments(t)
}

// ApplyExampleClasses creates the example's MachineClasses and Secrets for this shoot.
func (s *Shoot) ApplyExampleClasses(t *testing.T) {
	t.Helper()
	s.ApplyCredentials(t)

	for _, document := range s.Manifest(t, "example/machineclasses.yaml") {
		CreateManifest(t, document, s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Create)
	}
}

// ApplyCredentials creates the Secrets referenced by the MachineClasses.
func (s *Shoot) ApplyCredentials(t *testing.T) {
	t.Helper()

	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider"},
		Data:       map[string][]byte{"kubeconfig": s.ProviderKubeconfig},
	}
	_, err := s.Target.CoreV1().Secrets(s.Namespace).Create(t.Context(), credentials, metav1.CreateOptions{})
	require.NoError(t, err)

	for _, document := range s.Manifest(t, "example/userdata.yaml") {
		CreateManifest(t, document, s.Target.CoreV1().Secrets(s.Namespace).Create)
	}
}

// ApplyExampleDeployments creates the example's MachineDeployments for this shoot.
func (s *Shoot) ApplyExampleDeployments(t *testing.T) {
	t.Helper()

	for _, document := range s.Manifest(t, "example/machinedeployments.yaml") {
		CreateManifest(t, document, s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).Create)
	}
}

// Manifest returns the documents of a shipped file, with this shoot's names.
func (s *Shoot) Manifest(t *testing.T, file string) [][]byte {
	t.Helper()

	raw, err := manifests.Manifests.ReadFile(file)
	require.NoError(t, err)

	text := string(raw)
	if strings.Contains(text, "shoot--lab--demo") {
		text = MustReplace(text, "shoot--lab--demo", s.Namespace)
	}

	var documents [][]byte
	for document := range strings.SplitSeq(text, "\n---\n") {
		documents = append(documents, []byte(document))
	}

	return documents
}

// Scale sets the number of replicas of a MachineDeployment.
func (s *Shoot) Scale(t *testing.T, deployment string, replicas int) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).Patch(t.Context(), deployment, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// AwaitRunning waits until exactly the wanted number of Machines exist, all Running on Ready nodes,
// and returns them by name.
func (s *Shoot) AwaitRunning(t *testing.T, want int) map[string]*v1alpha1.Machine {
	t.Helper()

	running := map[string]*v1alpha1.Machine{}

	Eventually(t, fmt.Sprintf("%d machines run", want), func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		clear(running)

		for i := range list.Items {
			if m := &list.Items[i]; m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning && m.DeletionTimestamp == nil {
				running[m.Name] = m
			}
		}

		return len(running) == want && len(list.Items) == want, nil
	})

	for name, m := range running {
		require.Equal(t, "kubevirt://"+name, m.Spec.ProviderID)
		require.Equal(t, name, m.Labels[v1alpha1.NodeLabelKey])
	}

	return running
}

// RequireEvents requires the driver's Events on a Machine.
func (s *Shoot) RequireEvents(t *testing.T, machine string, reasons ...string) {
	t.Helper()

	for _, reason := range reasons {
		Eventually(t, machine+" has the Event "+reason, func(ctx context.Context) (bool, error) {
			events, err := s.Target.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{
				FieldSelector: "involvedObject.kind=Machine,involvedObject.name=" + machine + ",reason=" + reason,
			})

			return err == nil && len(events.Items) > 0, err
		})
	}
}

// ChangeClass changes the ProviderSpec of a MachineClass.
func (s *Shoot) ChangeClass(t *testing.T, class, spec string) {
	t.Helper()

	patch := []byte(`{"providerSpec":` + spec + `}`)
	_, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), class, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// CreateManifest creates the object of a document, which must not contain unknown fields.
func CreateManifest[T any, P interface {
	*T
	runtime.Object
}](t *testing.T, document []byte, send func(context.Context, P, metav1.CreateOptions) (P, error)) P {
	t.Helper()

	var object P = new(T)

	require.NoError(t, yaml.UnmarshalStrict(document, object))
	made, err := send(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)

	return made
}
