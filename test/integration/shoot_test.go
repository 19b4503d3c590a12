package integration

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// settled bounds every wait for the control planes to reach a state. It only ends failing tests, so
// it is long: other processes may use the cores too, and machine-controller-manager retries some
// operations only after three minutes.
const settled = 15 * time.Minute

// shoot is a shoot for a single test, with administrator clients for both clusters.
type shoot struct {
	*environment.Shoot

	kube     kubernetes.Interface // of the provider cluster
	kubevirt kubevirt.Interface
	cdi      containerizeddataimporter.Interface
	target   kubernetes.Interface
	mcm      mcmclient.Interface

	controller *process.Process // the sidecar, after runControllers has started it
}

func newShoot(t *testing.T) *shoot {
	t.Helper()

	made, err := lab.AddShoot(t.Context(), "t"+rand.String(6))
	require.NoError(t, err)

	made.ProviderKubeconfig, err = withCanaries(made.ProviderKubeconfig)
	require.NoError(t, err)

	s := &shoot{Shoot: made}
	s.kube, err = kubernetes.NewForConfig(lab.Provider.Config())
	require.NoError(t, err)
	s.kubevirt, err = kubevirt.NewForConfig(lab.Provider.Config())
	require.NoError(t, err)
	s.cdi, err = containerizeddataimporter.NewForConfig(lab.Provider.Config())
	require.NoError(t, err)
	s.target, err = kubernetes.NewForConfig(lab.Control.Config())
	require.NoError(t, err)
	s.mcm, err = mcmclient.NewForConfig(lab.Control.Config())
	require.NoError(t, err)

	return s
}

// machine is a Machine with its class and its Secret, as passed by
// machine-controller-manager to a driver.
type machine struct {
	machine *v1alpha1.Machine
	class   *v1alpha1.MachineClass
	secret  *corev1.Secret
}

// spec returns the shoot's ProviderSpec as JSON, with the given root volume.
func (s *shoot) spec(zone, rootVolume string) []byte {
	return fmt.Appendf(nil, `{"region":"local","zone":%q,"cpu":{"cores":1},"memory":{"guest":"1Gi"},
		"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},"rootVolume":%s}`, zone, s.Namespace, rootVolume)
}

func (s *shoot) newMachine(zone, rootVolume string) *machine {
	return &machine{
		machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: s.Name + "-" + rand.String(5), Namespace: s.Namespace, UID: uuid.NewUUID(),
			Labels: map[string]string{"name": s.Name},
		}},
		class: &v1alpha1.MachineClass{
			ObjectMeta:   metav1.ObjectMeta{Name: "class", Namespace: s.Namespace},
			Provider:     "kubevirt",
			ProviderSpec: runtime.RawExtension{Raw: s.spec(zone, rootVolume)},
		},
		secret: &corev1.Secret{Data: map[string][]byte{"kubeconfig": s.ProviderKubeconfig, "userData": []byte("#cloud-config\n# " + userDataCanary + "\n")}},
	}
}

const importedRoot = `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
	"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`

func (m *machine) name() string { return m.machine.Name }

func (m *machine) create(ctx context.Context, d driver.Driver) (*driver.CreateMachineResponse, error) {
	return d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})
}

func (m *machine) initialize(ctx context.Context, d driver.Driver) (*driver.InitializeMachineResponse, error) {
	return d.InitializeMachine(ctx, &driver.InitializeMachineRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})
}

func (m *machine) status(ctx context.Context, d driver.Driver) (*driver.GetMachineStatusResponse, error) {
	return d.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})
}

func (m *machine) remove(ctx context.Context, d driver.Driver) error {
	_, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})

	return err
}

func (m *machine) list(ctx context.Context, d driver.Driver) (map[string]string, error) {
	resp, err := d.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: m.class, Secret: m.secret})
	if err != nil {
		return nil, err
	}

	return resp.MachineList, nil
}

// awaitScheduled calls the driver as machine-controller-manager does until
// GetMachineStatus returns OK.
func (m *machine) awaitScheduled(t *testing.T, d driver.Driver) {
	t.Helper()

	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, settled, true, func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)
		if err == nil {
			return true, nil
		}

		if codeOf(err) != codes.Uninitialized {
			return false, err
		}

		_, err = m.initialize(ctx, d)

		return false, err
	})
	require.NoError(t, err)
}

func codeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}

	got, ok := status.FromError(err)
	if !ok {
		return codes.Code(99)
	}

	return got.Code()
}

// eventually waits until the condition holds, and fails with its last error.
func eventually(t *testing.T, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()
	within(t, settled, what, condition)
}

// within is eventually with a custom limit.
func within(t *testing.T, limit time.Duration, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	// Most waits are long, and dozens of them query the API servers concurrently, so the pauses
	// grow with the duration of a wait.
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.3, Cap: time.Second, Steps: math.MaxInt32}.DelayFunc()
	err := pauses.Until(ctx, true, true, condition)
	require.NoError(t, err, "waiting until %s; the lab's logs are in %s", what, lab.LogDir)
}

func (s *shoot) vm(t *testing.T, name string) *kubevirtv1.VirtualMachine {
	t.Helper()

	vm, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	return vm
}

// left returns the names of all objects in the shoot's provider namespace that belong to machines.
func (s *shoot) left(ctx context.Context) ([]string, error) {
	var names []string

	vms, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range vms.Items {
		names = append(names, "VirtualMachine "+vms.Items[i].Name)
	}

	instances, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range instances.Items {
		names = append(names, "VirtualMachineInstance "+instances.Items[i].Name)
	}

	more, err := s.leftStorage(ctx)

	return append(names, more...), err
}

func (s *shoot) leftStorage(ctx context.Context) ([]string, error) {
	var names []string

	volumes, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range volumes.Items {
		names = append(names, "DataVolume "+volumes.Items[i].Name)
	}

	claims, err := s.kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range claims.Items {
		names = append(names, "PersistentVolumeClaim "+claims.Items[i].Name)
	}

	secrets, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range secrets.Items {
		names = append(names, "Secret "+secrets.Items[i].Name)
	}

	return names, nil
}

// requireNothingLeft waits until the provider namespace holds only the named objects.
// Golden images outlive machines, so they are swept first, as after the deletion of the
// shoot's last MachineClass.
func (s *shoot) requireNothingLeft(t *testing.T, but ...string) {
	t.Helper()

	s.deleteImages(t, s.Namespace)

	var left []string

	defer func() {
		if t.Failed() {
			t.Logf("left: %v", left)
		}
	}()

	eventually(t, "nothing is left of the machines", func(ctx context.Context) (bool, error) {
		all, err := s.left(ctx)
		if err != nil {
			return false, err
		}

		left = nil

		for _, name := range all {
			if !strings.Contains(strings.Join(but, "\n"), name) {
				left = append(left, name)
			}
		}

		return len(left) == 0, nil
	})
	require.Empty(t, left)
}

// importImage creates a DataVolume, hence a claim of the same name, from
// which machines can be cloned.
func (s *shoot) importImage(t *testing.T, name string) {
	t.Helper()

	image := &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true"},
		},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: "https://images.example.com/worker.qcow2"}},
			Storage: &cdiv1beta1.StorageSpec{
				StorageClassName: new("immediate"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		},
	}

	volumes := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace)
	_, err := volumes.Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, "image "+name+" is imported", func(ctx context.Context) (bool, error) {
		got, err := volumes.Get(ctx, name, metav1.GetOptions{})

		return err == nil && got.Status.Phase == cdiv1beta1.Succeeded, err
	})
}

// deleteImages deletes the golden images of a shoot by their labels, as the docs tell operators to.
func (s *shoot) deleteImages(t *testing.T, cluster string) {
	t.Helper()

	images := metav1.ListOptions{LabelSelector: apiv1alpha1.TagCluster + "=" + cluster + "," + apiv1alpha1.LabelGoldenImage + ",!" + apiv1alpha1.TagRole}
	require.NoError(t, s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, images))
}
