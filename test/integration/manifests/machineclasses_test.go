// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestShippedMachineClasses applies each shipped MachineClass and creates a machine from it.
func TestShippedMachineClasses(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})

	for _, name := range []string{"minimal", "complete", "production"} {
		class, userData := applyMachineClass(t, s, "machineclass/"+name+".yaml")
		require.Contains(t, class.Name, name)

		if name == "production" { // Replace the example's StorageClass by the lab's for shared block volumes.
			class.ProviderSpec.Raw = harness.ReplaceInSpec(t, class.ProviderSpec, "example-replicated-block", "immediate")
		}

		m := s.NewMachine("zone-a", harness.ImportedRoot)
		m.Class = class
		m.Secret.Data["userData"] = userData

		_, err := m.Create(t.Context(), d)
		require.NoError(t, err, name)
		m.AwaitScheduled(t, d)
		harness.Eventually(t, name+" runs", func(ctx context.Context) (bool, error) {
			vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(ctx, m.Name(), metav1.GetOptions{})

			return err == nil && vm.Status.Ready, err
		})

		require.NoError(t, m.Remove(t.Context(), d))
	}

	s.RequireNothingLeft(t)
}

// applyMachineClass creates the file's objects in the shoot's control-plane namespace. It returns
// the class as stored by the API server, and the file's user data, if any.
func applyMachineClass(t *testing.T, s *harness.Shoot, file string) (*v1alpha1.MachineClass, []byte) {
	t.Helper()

	var class *v1alpha1.MachineClass

	userData := []byte("#cloud-config\n")

	for _, document := range s.Manifest(t, file) {
		var kind metav1.TypeMeta

		require.NoError(t, yaml.Unmarshal(document, &kind))

		switch kind.Kind {
		case "MachineClass":
			class = harness.CreateManifest(t, document, s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Create)
		case "Secret":
			secret := harness.CreateManifest(t, document, s.Target.CoreV1().Secrets(s.Namespace).Create)
			userData = secret.Data["userData"]
		default:
			require.Fail(t, "unexpected kind", kind.Kind)
		}
	}

	require.NotNil(t, class)

	return class, userData
}
