package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// goldenImages returns the UIDs of the shoot's golden images by name, and those that are complete.
func (s *shoot) goldenImages(ctx context.Context) (all, complete map[string]types.UID, err error) {
	list, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: apiv1alpha1.TagCluster + "=" + s.Namespace + "," + apiv1alpha1.LabelGoldenImage + ",!" + apiv1alpha1.TagRole,
	})
	if err != nil {
		return nil, nil, err
	}

	all, complete = map[string]types.UID{}, map[string]types.UID{}

	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].UID

		if list.Items[i].Status.Phase == cdiv1beta1.Succeeded {
			complete[list.Items[i].Name] = list.Items[i].UID
		}
	}

	return all, complete, nil
}

// awaitOneImage waits until there is exactly one golden image, and it is complete.
func (s *shoot) awaitOneImage(t *testing.T) (images map[string]types.UID) {
	t.Helper()

	eventually(t, "the golden image is imported", func(ctx context.Context) (bool, error) {
		all, complete, err := s.goldenImages(ctx)
		images = complete

		return len(all) == 1 && len(complete) == 1, err
	})

	return images
}

// TestImageWithoutAClass requires an image to which no MachineClass refers to be deleted, and the others to stay.
func TestImageWithoutAClass(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.applyExample(t)
	s.startControllers(t, "--machine-safety-orphan-vms-period=10s")
	s.awaitRunning(t, 3)

	used := s.awaitOneImage(t)
	image := s.rendered(t, s.newMachine("zone-a", importedRoot))

	_, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, "the image is gone", func(ctx context.Context) (bool, error) {
		all, _, err := s.goldenImages(ctx)

		return all[image.Name] == "", err
	})
	require.Equal(t, used, s.awaitOneImage(t))
}

func replaced(t *testing.T, spec runtime.RawExtension, old, with string) []byte {
	t.Helper()
	require.Contains(t, string(spec.Raw), old)

	return []byte(strings.ReplaceAll(string(spec.Raw), old, with))
}

// copyClass creates a class that differs from another one, and returns its name.
func (s *shoot) copyClass(t *testing.T, from, name string, change func(*v1alpha1.MachineClass)) string {
	t.Helper()

	classes := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace)
	class, err := classes.Get(t.Context(), from, metav1.GetOptions{})
	require.NoError(t, err)

	class.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
	change(class)

	_, err = classes.Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	return name
}
