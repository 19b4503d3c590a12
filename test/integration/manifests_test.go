package integration

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestShippedMachineClasses applies each shipped MachineClass and creates a machine from it.
func TestShippedMachineClasses(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})

	for _, name := range []string{"minimal", "complete", "production"} {
		class, userData := s.applyMachineClass(t, "machineclass/"+name+".yaml")
		require.Contains(t, class.Name, name)

		if name == "production" { // Replace the example's StorageClass by the lab's for shared block volumes.
			class.ProviderSpec.Raw = replaced(t, class.ProviderSpec, "example-replicated-block", "immediate")
		}

		m := s.newMachine("zone-a", importedRoot)
		m.class = class
		m.secret.Data["userData"] = userData

		_, err := m.create(t.Context(), d)
		require.NoError(t, err, name)
		m.awaitScheduled(t, d)
		eventually(t, name+" runs", func(ctx context.Context) (bool, error) {
			vm, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(ctx, m.name(), metav1.GetOptions{})

			return err == nil && vm.Status.Ready, err
		})

		require.NoError(t, m.remove(t.Context(), d))
	}

	s.requireNothingLeft(t)
}

// applyMachineClass creates the file's objects in the shoot's control-plane namespace. It returns
// the class as stored by the API server, and the file's user data, if any.
func (s *shoot) applyMachineClass(t *testing.T, file string) (*v1alpha1.MachineClass, []byte) {
	t.Helper()

	var class *v1alpha1.MachineClass

	userData := []byte("#cloud-config\n")

	for _, document := range s.manifest(t, file) {
		var kind metav1.TypeMeta

		require.NoError(t, yaml.Unmarshal(document, &kind))

		switch kind.Kind {
		case "MachineClass":
			class = create(t, document, s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Create)
		case "Secret":
			secret := create(t, document, s.target.CoreV1().Secrets(s.Namespace).Create)
			userData = secret.Data["userData"]
		default:
			require.Fail(t, "unexpected kind", kind.Kind)
		}
	}

	require.NotNil(t, class)

	return class, userData
}

// create creates the object of a document, which must not contain unknown fields.
func create[T any, P interface {
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
