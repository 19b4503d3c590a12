package integration

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
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

// awaitImages waits until there are exactly so many golden images, all complete.
func (s *shoot) awaitImages(t *testing.T, want int) (images map[string]types.UID) {
	t.Helper()

	eventually(t, "the golden images are imported", func(ctx context.Context) (bool, error) {
		all, complete, err := s.goldenImages(ctx)
		images = complete

		return len(all) == want && len(complete) == want, err
	})

	return images
}

// TestImageOfAClassWithoutMachines requires the image of a class to be made before the first Machine, and to be deleted with the class.
func TestImageOfAClassWithoutMachines(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.applyExampleClasses(t)
	s.startControllers(t)
	s.awaitImages(t, 1)

	newer := s.copyClass(t, "example-worker-z1", "newer", func(class *v1alpha1.MachineClass) {
		class.ProviderSpec.Raw = replaced(t, class.ProviderSpec, "debian:12", "debian:13")
	})
	s.awaitImages(t, 2)

	require.NoError(t, s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Delete(t.Context(), newer, metav1.DeleteOptions{}))
	eventually(t, "the image is gone", func(ctx context.Context) (bool, error) {
		all, _, err := s.goldenImages(ctx)

		return len(all) == 1, err
	})

	s.deleteWorkers(t)
	s.requireClean(t)
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

// TestBrokenProviderClusterDelaysNoOther has one class lead to a server that answers nothing.
func TestBrokenProviderClusterDelaysNoOther(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.applyExampleClasses(t)

	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "silent"},
		Data:       map[string][]byte{"kubeconfig": silentServer(t, s.ProviderKubeconfig)},
	}
	_, err := s.target.CoreV1().Secrets(s.Namespace).Create(t.Context(), credentials, metav1.CreateOptions{})
	require.NoError(t, err)

	broken := s.copyClass(t, "example-worker-z1", "a-broken-class", func(class *v1alpha1.MachineClass) {
		class.CredentialsSecretRef.Name = credentials.Name
		class.ProviderSpec.Raw = replaced(t, class.ProviderSpec, "debian:12", "debian:14")
	})

	s.startControllers(t)
	s.awaitImages(t, 1)

	classes := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace)
	require.NoError(t, classes.Delete(t.Context(), "example-worker-z1", metav1.DeleteOptions{}))
	require.NoError(t, classes.Delete(t.Context(), "example-worker-z2", metav1.DeleteOptions{}))
	s.requireClean(t)

	_, err = classes.Get(t.Context(), broken, metav1.GetOptions{})
	require.NoError(t, err, "the broken class was there all the time")
}

// silentServer returns a kubeconfig that leads to a server that takes connections and says nothing.
func silentServer(t *testing.T, kubeconfig []byte) []byte {
	t.Helper()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })

	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)

	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + listener.Addr().String()
	}

	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)

	return raw
}
