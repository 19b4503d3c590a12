package machineclass_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmfake "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const namespace = "shoot--a--b"

// world is a control cluster, a Tracker that watches it, and the images on the provider clusters. Its time is synctest's.
type world struct {
	t       *testing.T
	mcm     *mcmfake.Clientset
	kube    *fake.Clientset
	images  *images
	tracker *machineclass.Tracker
}

// inWorld runs a test in a world of its own. The Tracker runs when the test says so.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tracker = machineclass.NewTracker(machineclass.Options{
			ControlCluster: w.control(), Images: w.images, Allowed: validation.Options{Template: validation.TemplateSafe},
		})

		test(t, w)
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()

	return &world{t: t, mcm: mcmfake.NewSimpleClientset(), kube: fake.NewClientset(), images: newImages()}
}

func (w *world) control() machineclass.ControlCluster {
	return machineclass.ControlCluster{Machines: w.mcm, Secrets: w.kube.CoreV1(), Namespace: namespace}
}

// run runs the Tracker until the test ends, and returns when it waits for something to happen.
func (w *world) run() {
	w.t.Helper()
	w.runs(w.tracker.Run)
}

func (w *world) runs(run func(context.Context)) {
	w.t.Helper()

	var running sync.WaitGroup

	ctx, cancel := context.WithCancel(w.t.Context())
	running.Go(func() { run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	pass(time.Second) // client-go looks every tenth of one whether its cache is filled.
}

// pass lets time pass, and everything happen that happens in it.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// class returns a class of cluster c with an image and a Secret.
func (w *world) class(name, image, secret string) *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{
		ObjectMeta:   metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name)},
		Provider:     "kubevirt",
		SecretRef:    &corev1.SecretReference{Name: secret, Namespace: namespace},
		ProviderSpec: runtime.RawExtension{Raw: specOf("c", image)},
	}
}

func specOf(cluster, image string) []byte {
	return fmt.Appendf(nil, `{"region":"r","zone":"z","memory":{"guest":"1Gi"},
		"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},
		"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/%s:1"}},
		"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}`, cluster, image)
}

func (w *world) create(classes ...*v1alpha1.MachineClass) {
	w.t.Helper()

	for _, class := range classes {
		_, err := w.mcm.MachineV1alpha1().MachineClasses(namespace).Create(w.t.Context(), class, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}

	synctest.Wait()
}

func (w *world) update(class *v1alpha1.MachineClass) {
	w.t.Helper()

	_, err := w.mcm.MachineV1alpha1().MachineClasses(namespace).Update(w.t.Context(), class.DeepCopy(), metav1.UpdateOptions{})
	require.NoError(w.t, err)
	synctest.Wait()
}

// terminate deletes a class that a finalizer keeps.
func (w *world) terminate(class *v1alpha1.MachineClass) {
	w.t.Helper()

	class.DeletionTimestamp = ptr.To(metav1.Now())
	w.update(class)
}

func (w *world) remove(classes ...*v1alpha1.MachineClass) {
	w.t.Helper()

	for _, class := range classes {
		err := w.mcm.MachineV1alpha1().MachineClasses(namespace).Delete(w.t.Context(), class.Name, metav1.DeleteOptions{})
		require.NoError(w.t, err)
	}

	synctest.Wait()
}

// secret creates or replaces a Secret with a kubeconfig.
func (w *world) secret(name, kubeconfig string) *corev1.Secret {
	w.t.Helper()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string][]byte{"userData": []byte("u")}}
	if kubeconfig != "" {
		secret.Data["kubeconfig"] = []byte(kubeconfig)
	}

	_ = w.kube.CoreV1().Secrets(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}) // It may not be there.
	_, err := w.kube.CoreV1().Secrets(namespace).Create(w.t.Context(), secret, metav1.CreateOptions{})
	require.NoError(w.t, err)

	return secret
}

// removeSecret removes the Secret "s".
func (w *world) removeSecret() {
	w.t.Helper()
	require.NoError(w.t, w.kube.CoreV1().Secrets(namespace).Delete(w.t.Context(), "s", metav1.DeleteOptions{}))
}

// requireImages requires what is there now, as "kubeconfig cluster image architecture".
func (w *world) requireImages(reason string, want ...string) {
	w.t.Helper()
	require.ElementsMatch(w.t, want, w.images.list(), reason)
}

// images are those on the provider clusters. Each kubeconfig is a cluster of its own.
type images struct {
	mu     sync.Mutex
	there  map[string]bool
	inUse  map[string]bool
	lived  map[string]bool          // machines that were made of them exist
	errors map[string]error         // by kubeconfig
	hold   map[string]chan struct{} // by kubeconfig, or method and kubeconfig: calls wait until it is closed
	calls  []string
	dead   int // the most that a sweep was told of
}

func newImages() *images {
	return &images{there: map[string]bool{}, inUse: map[string]bool{}, errors: map[string]error{}, hold: map[string]chan struct{}{}}
}

func nameOf(kubeconfig []byte, image spi.Image) string {
	_, name, _ := strings.Cut(ptr.Deref(image.Spec.RootVolume.Source.Registry.URL, ""), ".com/")

	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", kubeconfig, image.Spec.Tags["mcm.gardener.cloud/cluster"], strings.TrimSuffix(name, ":1"), image.Architecture))
}

func namesOf(kubeconfig []byte, list []spi.Image) []string {
	names := make([]string, 0, len(list))
	for _, image := range list {
		names = append(names, nameOf(kubeconfig, image))
	}

	return names
}

// call notes a call, and returns what it ends with before it does anything.
func (i *images) call(ctx context.Context, method string, kubeconfig []byte) error {
	i.mu.Lock()
	i.calls = append(i.calls, method+" "+string(kubeconfig))
	hold, err := cmp.Or(i.hold[string(kubeconfig)], i.hold[method+" "+string(kubeconfig)]), i.errors[string(kubeconfig)]
	i.mu.Unlock()

	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}

	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", spi.ErrUnavailable, ctx.Err())
	}

	return err
}

func (i *images) EnsureImages(ctx context.Context, in *spi.EnsureImagesInput) error {
	if err := i.call(ctx, "ensure", in.Kubeconfig); err != nil {
		return err
	}

	i.mu.Lock()
	defer i.mu.Unlock()

	for _, name := range namesOf(in.Kubeconfig, in.Images) {
		i.there[name] = true
	}

	return nil
}

func (i *images) SweepImages(ctx context.Context, in *spi.SweepImagesInput) (*spi.SweepImagesResult, error) {
	if err := i.call(ctx, "sweep", in.Kubeconfig); err != nil {
		return nil, err
	}

	i.mu.Lock()
	defer i.mu.Unlock()

	live, dead, vanished := namesOf(in.Kubeconfig, in.Live), namesOf(in.Kubeconfig, in.Dead), namesOf(in.Kubeconfig, in.Vanished)
	result := &spi.SweepImagesResult{}
	i.dead = max(i.dead, len(dead))

	for name := range i.there {
		switch {
		case !strings.HasPrefix(name, fmt.Sprintf("%s %s ", in.Kubeconfig, in.Cluster)):
		case slices.Contains(live, name):
		case in.Dead != nil && !slices.Contains(dead, name):
		case i.inUse[name], i.lived[name] && slices.Contains(vanished, name):
			result.InUse = append(result.InUse, name)
		default:
			result.Deleted = append(result.Deleted, name)
			delete(i.there, name)
		}
	}

	return result, nil
}

func (i *images) list() []string {
	i.mu.Lock()
	defer i.mu.Unlock()

	return slices.Collect(maps.Keys(i.there))
}

// set changes something between calls.
func (i *images) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// called returns the calls since it was last asked.
func (i *images) called() []string {
	i.mu.Lock()
	defer i.mu.Unlock()

	calls := i.calls
	i.calls = nil

	return calls
}
