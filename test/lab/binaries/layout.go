package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// kubernetesVersion is the version in modules/kubernetes/go.mod. Binaries built from modules do not
// know their version, and machine-controller-manager rejects an API server that reports none.
const (
	kubernetesVersion = "v1.34.2"
	ldflags           = "-s -w"
	kubernetesLdflags = ldflags +
		" -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
)

// layout holds the folders of each set's module and build output.
type layout struct {
	modules  map[string]string
	targets  map[string]string
	kubeVirt Version
}

// newLayout returns the layout for a minor version of KubeVirt; empty means the default.
func newLayout(modules, cache, kubeVirt string) (layout, error) {
	l := layout{modules: map[string]string{}, targets: map[string]string{}}
	for _, set := range []string{"etcd", "kubernetes", "cdi", "mcm", "prometheus", "gardener", "kubelet", "launcher", "importer"} {
		l.modules[set] = filepath.Join(modules, set)
	}
	var err error
	if l.modules["kubevirt"], err = kubeVirtSet(modules, kubeVirt); err != nil {
		return layout{}, err
	}
	if l.kubeVirt, err = required(l.modules["kubevirt"], "kubevirt.io/kubevirt"); err != nil {
		return layout{}, err
	}
	for set, module := range l.modules {
		hash, err := hashModule(os.DirFS(module))
		if err != nil {
			return layout{}, fmt.Errorf("hash module %s: %w", module, err)
		}
		l.targets[set] = filepath.Join(cache, filepath.Base(module)+"-"+hash)
	}
	return l, nil
}

// hashModule returns a short hash over the module's files, the Go version and
// platform, and the build flags.
func hashModule(module fs.FS) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags(), kubernetesLdflags)
	err := fs.WalkDir(module, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := module.Open(path)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer f.Close() //nolint:errcheck // read-only
		content := sha256.New()
		if _, err := io.Copy(content, f); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		fmt.Fprintf(h, "%s %x\n", path, content.Sum(nil))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("walk: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// steps returns all build steps in order, with durations measured on two cores with empty caches.
func (l layout) steps(a assets) []step {
	s := func(name, set string, estimate time.Duration, produce func() ([]string, producer)) step {
		outputs, p := produce()
		return step{
			name: name, module: l.modules[set], target: l.targets[set],
			outputs: outputs, estimate: estimate, produce: p,
		}
	}
	all := []step{
		s("kube-apiserver", "kubernetes", 260*time.Second, one("kube-apiserver", kubernetesLdflags, "k8s.io/kubernetes/cmd/kube-apiserver")),
		s("etcd", "etcd", 30*time.Second, one("etcd", ldflags, "go.etcd.io/etcd/server/v3")),
		s("kubectl", "kubernetes", 30*time.Second, one("kubectl", kubernetesLdflags, "k8s.io/kubernetes/cmd/kubectl")),
		s("kube-controller-manager", "kubernetes", 70*time.Second,
			one("kube-controller-manager", kubernetesLdflags, "k8s.io/kubernetes/cmd/kube-controller-manager")),
		s("kube-scheduler", "kubernetes", 15*time.Second, one("kube-scheduler", kubernetesLdflags, "k8s.io/kubernetes/cmd/kube-scheduler")),
		s("KubeVirt "+string(l.kubeVirt), "kubevirt", 160*time.Second, func() ([]string, producer) {
			return []string{"virt-api", "virt-controller", "manifests.json"}, both(
				compile(ldflags, "kubevirt.io/kubevirt/cmd/virt-api", "kubevirt.io/kubevirt/cmd/virt-controller"),
				printed("./cmd/kubevirt-manifests"))
		}),
		s("CDI", "cdi", 130*time.Second, func() ([]string, producer) {
			return []string{"cdi-apiserver", "cdi-controller", "manifests.json"}, both(
				compile(ldflags, "./cmd/cdi-apiserver", "./cmd/cdi-controller"), printed("./cmd/cdi-manifests"))
		}),
		s("machine-controller-manager", "mcm", 80*time.Second, func() ([]string, producer) {
			return []string{"machine-controller-manager", "crds"}, both(
				compile(ldflags, mcmModule+"/cmd/machine-controller-manager"), copied(mcmModule, "kubernetes/crds"))
		}),
		s("Prometheus' parser and rules", "prometheus", 70*time.Second, one("promql", ldflags, "./cmd/promql")),
	}
	var wanted []step
	for _, s := range all {
		if a.path(s.outputs[0]) == "" {
			s.number = len(wanted) + 1
			wanted = append(wanted, s)
		}
	}
	return wanted
}

const (
	resourceManager   = "gardener-resource-manager"
	gardenerAPIServer = "gardener-apiserver"
)

// gardener returns the step that builds Gardener's components.
func (l layout) gardener(number int) step {
	const commands = "github.com/gardener/gardener/cmd/"
	return step{
		number: number, name: "Gardener", module: l.modules["gardener"], target: l.targets["gardener"],
		outputs: []string{resourceManager, gardenerAPIServer}, estimate: 400 * time.Second,
		produce: compile(ldflags, commands+resourceManager, commands+gardenerAPIServer),
	}
}

type producer = func(ctx context.Context, s step, into string) error

// one returns the outputs and producer of a step that builds a single binary.
func one(name, flags, pkg string) func() ([]string, producer) {
	return func() ([]string, producer) { return []string{name}, compile(flags, pkg) }
}

const mcmModule = "github.com/gardener/machine-controller-manager"

func (l layout) binaries(a assets) *Binaries {
	file := func(set, name string) string {
		if path := a.path(name); path != "" {
			return path
		}
		return filepath.Join(l.targets[set], name)
	}
	return &Binaries{
		Etcd:                  file("etcd", "etcd"),
		KubeAPIServer:         file("kubernetes", "kube-apiserver"),
		KubeControllerManager: file("kubernetes", "kube-controller-manager"),
		KubeScheduler:         file("kubernetes", "kube-scheduler"),
		Kubectl:               file("kubernetes", "kubectl"),
		VirtAPI:               file("kubevirt", "virt-api"),
		VirtController:        file("kubevirt", "virt-controller"),
		KubeVirtManifests:     file("kubevirt", "manifests.json"),
		KubeVirtVersion:       l.kubeVirt,
		CDIAPIServer:          file("cdi", "cdi-apiserver"),
		CDIController:         file("cdi", "cdi-controller"),
		CDIManifests:          file("cdi", "manifests.json"),
		MCM:                   file("mcm", "machine-controller-manager"),
		MCMCRDs:               file("mcm", "crds"),
		PromQL:                file("prometheus", "promql"),
	}
}

// modulesDir finds test/lab/modules upwards from the working folder (go test, go run), or from the
// location where this file was compiled.
func modulesDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working folder: %w", err)
	}
	candidates := []string{}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		candidates = append(candidates, filepath.Join(dir, "test", "lab", "modules"))
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		candidates = append(candidates, filepath.Join(filepath.Dir(filepath.Dir(file)), "modules"))
	}
	for _, candidate := range candidates {
		if isOurs(candidate) {
			return candidate, nil
		}
	}
	return "", errors.New("find test/lab/modules: run the lab from inside its repository")
}

func isOurs(modules string) bool {
	data, err := os.ReadFile(filepath.Join(modules, "etcd", "go.mod"))
	return err == nil && strings.Contains(string(data), "machine-controller-manager-provider-kubevirt/test/lab/modules/etcd")
}
