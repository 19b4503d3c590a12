package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttransport "k8s.io/client-go/transport"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classWatch is what the sidecar does beside the driver's methods: it watches the MachineClasses of a shoot and keeps their golden
// images, in one process after the other.
type classWatch struct {
	*shoot

	machine  *machine
	saboteur *saboteur
	settings settings
	// ended is closed when the present process has ended.
	ended chan struct{}
}

// mortalImages tell the saboteur that a method begins, and how its process dies.
type mortalImages struct {
	spi.GoldenImages

	saboteur *saboteur
	kill     context.CancelFunc
}

// EnsureImages implements spi.GoldenImages.
func (i *mortalImages) EnsureImages(ctx context.Context, in *spi.EnsureImagesInput) error {
	i.saboteur.during(i.kill)

	return i.GoldenImages.EnsureImages(ctx, in)
}

// SweepImages implements spi.GoldenImages.
func (i *mortalImages) SweepImages(ctx context.Context, in *spi.SweepImagesInput) (*spi.SweepImagesResult, error) {
	i.saboteur.during(i.kill)

	return i.GoldenImages.SweepImages(ctx, in)
}

// liveOfClass is that of a MachineClass. When it comes, there is an image that has failed for good, which is replaced before there is any
// machine. When it goes, so does the image.
func liveOfClass(t *testing.T, s *shoot, saboteur *saboteur) {
	t.Helper()

	m := s.newMachine("zone-a", importedRoot)

	s.failImports(t, wrongChecksum)
	image := s.ensureImage(t, m, cdiv1beta1.Failed)
	s.failImports(t, "")

	failed := s.images(t)[image]
	letGo := s.keepClass(t, m)
	w := s.watchClasses(t, m, saboteur, settings{imageClock: ahead{by: 6 * time.Minute}, wrap: s.changeImages(saboteur)})

	w.until(t, "the image is another one, and complete", func(ctx context.Context) (bool, error) {
		_, complete, err := s.goldenImages(ctx)

		return complete[image] != "" && complete[image] != failed, err
	})
	require.True(t, saboteur.hasHit("EnsureImages: create datavolumes", "EnsureImages: get datavolumes", "EnsureImages: delete datavolumes"))

	require.NoError(t, s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Delete(t.Context(), m.class.Name, metav1.DeleteOptions{}))
	w.until(t, "the image is gone", func(ctx context.Context) (bool, error) {
		all, _, err := s.goldenImages(ctx)

		return len(all) == 0, err
	})
	require.True(t, saboteur.hasHit("SweepImages: list datavolumes", "SweepImages: list virtualmachines",
		"SweepImages: delete datavolumes", "SweepImages: get datavolumes"))

	letGo()
	s.requireNothingLeft(t)
}

// watchClasses starts the first process.
func (s *shoot) watchClasses(t *testing.T, m *machine, saboteur *saboteur, settings settings) *classWatch {
	t.Helper()

	settings.wrap = clienttransport.Wrappers(settings.wrap, saboteur.wrap)
	w := &classWatch{shoot: s, machine: m, saboteur: saboteur, settings: settings}
	w.start(t)

	return w
}

// start begins a process that leads at once: machine-controller-manager's first request says so.
func (w *classWatch) start(t *testing.T) {
	t.Helper()

	ctx, kill := context.WithCancel(t.Context())
	tracker := machineclass.NewTracker(machineclass.Options{
		ControlCluster: machineclass.ControlCluster{Machines: w.mcm, Secrets: w.target.CoreV1(), Namespace: w.Namespace},
		Allowed:        allowed,
		Images:         &mortalImages{GoldenImages: recorder.images(newProvider(w.settings)), saboteur: w.saboteur, kill: kill},
	})
	tracker.Seen(w.machine.class, w.machine.secret)

	ended := make(chan struct{})
	w.ended = ended

	go func() {
		tracker.Run(ctx)
		close(ended)
	}()

	t.Cleanup(func() {
		kill()
		<-ended
	})
}

// until waits, and follows each process that has died by the next one.
func (w *classWatch) until(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()

	eventually(t, what, func(ctx context.Context) (bool, error) {
		select {
		case <-w.ended:
			require.True(t, w.saboteur.revive(), "nothing else ends it")
			w.start(t) //nolint:contextcheck // The process outlives this wait.
		default:
		}

		return done(ctx)
	})
}

// keepClass puts the machine's class into the control cluster, where it stays, also when it is deleted, until it is let go:
// machine-controller-manager has a finalizer on the classes of Machines.
func (s *shoot) keepClass(t *testing.T, m *machine) (letGo func()) {
	t.Helper()

	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider"}, Data: m.secret.Data}
	_, err := s.target.CoreV1().Secrets(s.Namespace).Create(t.Context(), credentials, metav1.CreateOptions{})
	require.NoError(t, err)

	class := m.class.DeepCopy()
	class.Finalizers = []string{"machine.sapcloud.io/machine-controller"}
	class.CredentialsSecretRef = &corev1.SecretReference{Name: credentials.Name, Namespace: s.Namespace}

	classes := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace)
	_, err = classes.Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	return func() {
		_, err := classes.Patch(t.Context(), class.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}
