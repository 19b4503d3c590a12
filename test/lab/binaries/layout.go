// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
)

const ldflags = "-s -w"

// kubernetesLdflags returns the flags for programs of Kubernetes. Binaries built from modules do not
// know their version, and machine-controller-manager rejects an API server that reports none.
func kubernetesLdflags(v Version) string {
	const set = " -X k8s.io/component-base/version."
	major, minor := v.numbers()
	return ldflags + set + "gitVersion=" + string(v) + set + "gitMajor=" + major + set + "gitMinor=" + minor
}

// layout holds the folders of each set's module and build output.
type layout struct {
	modules  map[string]string
	targets  map[string]string
	versions map[string]Version // of the components, of kubelet, and of the programs beside a CSI driver
}

// newLayout returns the layout for minor versions of the components; empty means the preset one, or
// of Kubernetes, the newest one under which the chosen KubeVirt runs.
func newLayout(modules, cache string, minor func(component) string) (layout, error) {
	minor, err := supported(minor)
	if err != nil {
		return layout{}, err
	}
	l := layout{modules: map[string]string{}, targets: map[string]string{}, versions: map[string]Version{}}
	for _, set := range []string{"etcd", "mcm", "prometheus", "gardener", csiDriver, "kubelet", "runc", coreDNS, kubeProxy, multus, clusterAPI} {
		l.modules[set] = filepath.Join(modules, set)
	}
	versioned := map[string]string{
		kubernetes.set: kubernetes.module, kubeVirt.set: kubeVirt.module, cdi.set: cdi.module, "kubelet": kubernetes.module,
		nodeSet: kubeVirt.module, "mcm": mcmModule,
	}
	for _, s := range sidecarSets {
		l.modules[s.set] = filepath.Join(modules, s.set)
		versioned[s.set] = s.module
	}
	for _, c := range components {
		if l.modules[c.set], err = c.folder(modules, minor(c)); err != nil {
			return layout{}, err
		}
	}
	l.modules[nodeSet] = nodeFolder(l.modules[kubeVirt.set])
	for set, module := range versioned {
		if l.versions[set], err = required(l.modules[set], module); err != nil {
			return layout{}, err
		}
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

// hashModule returns a short hash over the module's files, which include the versions, the Go version
// and platform, and the build flags.
func hashModule(module fs.FS) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, compile.Flags(), kubernetesLdflags(""))
	if err := HashFiles(h, module); err != nil {
		return "", fmt.Errorf("walk: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// HashFiles writes the paths of files, and the checksums of their contents.
func HashFiles(into io.Writer, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		fmt.Fprintf(into, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
}

// steps returns the build steps of every lab in order, with durations measured on two cores, when nothing but the driver had been compiled.
func (l layout) steps(a assets) []step {
	s := func(name, set string, estimate time.Duration, produce func() ([]string, producer)) step {
		outputs, p := produce()
		return step{
			name:     name,
			module:   l.modules[set],
			target:   l.targets[set],
			outputs:  outputs,
			estimate: estimate,
			produce:  p,
		}
	}
	kubernetesVersion := l.versions[kubernetes.set]
	kube := func(name string, estimate time.Duration) step {
		return s(name+" "+string(kubernetesVersion), kubernetes.set, estimate,
			one(name, kubernetesLdflags(kubernetesVersion), "k8s.io/kubernetes/cmd/"+name))
	}
	all := []step{
		kube("kube-apiserver", 280*time.Second),
		s("etcd", "etcd", 25*time.Second, one("etcd", ldflags, "go.etcd.io/etcd/server/v3")),
		kube("kubectl", 55*time.Second),
		kube("kube-controller-manager", 145*time.Second),
		kube("kube-scheduler", 10*time.Second),
		s("KubeVirt "+string(l.versions[kubeVirt.set]), kubeVirt.set, 130*time.Second, func() ([]string, producer) {
			return []string{"virt-api", "virt-controller", "manifests.json"}, both(
				compiled(ldflags, "kubevirt.io/kubevirt/cmd/virt-api", "kubevirt.io/kubevirt/cmd/virt-controller"),
				printed("./cmd/kubevirt-manifests"))
		}),
		s("CDI "+string(l.versions[cdi.set]), cdi.set, 50*time.Second, func() ([]string, producer) {
			return []string{"cdi-apiserver", "cdi-controller", "manifests.json"}, both(
				compiled(ldflags, "./cmd/cdi-apiserver", "./cmd/cdi-controller"), printed("./cmd/cdi-manifests"))
		}),
		s("machine-controller-manager", "mcm", 10*time.Second, func() ([]string, producer) {
			return []string{"machine-controller-manager", "crds"}, both(
				compiled(ldflags, mcmModule+"/cmd/machine-controller-manager"), copied(mcmModule, "kubernetes/crds"))
		}),
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

// gardenerPrograms returns the steps that build what the tests of the Gardener extension run.
func (l layout) gardenerPrograms() []step {
	return append([]step{l.gardener(), l.csiDriver()}, l.sidecars()...)
}

// gardener returns the step that builds Gardener's components.
func (l layout) gardener() step {
	const commands = "github.com/gardener/gardener/cmd/"
	return step{
		name:     "Gardener",
		module:   l.modules["gardener"],
		target:   l.targets["gardener"],
		outputs:  []string{resourceManager, gardenerAPIServer},
		estimate: 70 * time.Second, // after the extension, which shares packages with it
		produce:  compiled(ldflags, commands+resourceManager, commands+gardenerAPIServer),
	}
}

// promQL returns the step that builds Prometheus' parser and rules.
func (l layout) promQL() step {
	return step{
		number:   1,
		name:     "Prometheus' parser and rules",
		module:   l.modules["prometheus"],
		target:   l.targets["prometheus"],
		outputs:  []string{"promql"},
		estimate: 70 * time.Second,
		produce:  compiled(ldflags, "./cmd/promql"),
	}
}

type producer = func(ctx context.Context, s step, into string) error

// one returns the outputs and producer of a step that builds a single binary.
func one(name, flags, pkg string) func() ([]string, producer) {
	return func() ([]string, producer) { return []string{name}, compiled(flags, pkg) }
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
		KubeAPIServer:         file(kubernetes.set, "kube-apiserver"),
		KubeControllerManager: file(kubernetes.set, "kube-controller-manager"),
		KubeScheduler:         file(kubernetes.set, "kube-scheduler"),
		Kubectl:               file(kubernetes.set, "kubectl"),
		KubernetesVersion:     l.versions[kubernetes.set],
		VirtAPI:               file(kubeVirt.set, "virt-api"),
		VirtController:        file(kubeVirt.set, "virt-controller"),
		KubeVirtManifests:     file(kubeVirt.set, "manifests.json"),
		KubeVirtVersion:       l.versions[kubeVirt.set],
		CDIAPIServer:          file(cdi.set, "cdi-apiserver"),
		CDIController:         file(cdi.set, "cdi-controller"),
		CDIManifests:          file(cdi.set, "manifests.json"),
		CDIVersion:            l.versions[cdi.set],
		MCM:                   file("mcm", "machine-controller-manager"),
		MCMCRDs:               file("mcm", "crds"),
		MCMVersion:            l.versions["mcm"],
	}
}

// modulesDir returns the folder test/lab/modules of the repository with the working folder.
func modulesDir() (string, error) {
	root, err := compile.Root()
	return filepath.Join(root, "test", "lab", "modules"), err
}
