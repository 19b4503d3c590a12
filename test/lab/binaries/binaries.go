// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the lab's real components from their pinned Go modules, once per machine.
//
// The environment calls Ensure before it starts anything. Each version set is a Go module
// under test/lab/modules; its build output is kept in the user's cache folder under a hash of
// that module's files, so that a fresh clone reuses it. Of Kubernetes, KubeVirt and CDI, there is a
// set for each of several minor versions; environment variables choose one. The package builds the
// binaries; it does not know how they are run.
package binaries

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Binaries holds the paths of everything the lab runs or applies.
type Binaries struct {
	Etcd                  string
	KubeAPIServer         string
	KubeControllerManager string
	KubeScheduler         string
	Kubectl               string
	VirtAPI               string
	VirtController        string
	CDIAPIServer          string
	CDIController         string
	MCM                   string // machine-controller-manager
	PromQL                string // validates alerts and dashboards, and evaluates alerts; empty unless EnsurePromQL has built it

	// GardenerResourceManager and GardenerAPIServer are empty unless EnsureGardener has built them.
	GardenerResourceManager string
	GardenerAPIServer       string
	// Sidecars are the programs beside a CSI driver by the ends of their images, such as csi-attacher:v4.13.0,
	// and CSIDriver takes the place of KubeVirt's driver; empty unless EnsureGardener has built them.
	Sidecars  map[string]string
	CSIDriver string

	// The following are empty unless EnsureNodes has built them, or, from Kubelet on, EnsureBareNodes.
	KubeProxy    string
	CoreDNS      string
	Multus       string
	CDIImporter  string // the program of importer pods
	Kubelet      string // of real nodes and of their guests
	Runc         string // runs real nodes as containers
	NodePrograms string // a folder with KubeVirt's programs for nodes and launchers; see NodeFiles

	KubeVirtManifests string // a JSON list of objects
	CDIManifests      string // a JSON list of objects
	MCMCRDs           string // a folder of YAML files, one CustomResourceDefinition each

	KubernetesVersion Version // of KubeAPIServer, KubeControllerManager, KubeScheduler and Kubectl
	KubeVirtVersion   Version // of VirtAPI, VirtController and KubeVirtManifests
	CDIVersion        Version // of CDIAPIServer, CDIController and CDIManifests
	MCMVersion        Version // of MCM and MCMCRDs
}

// CacheDir returns the lab's folder under the user's cache.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "machine-controller-manager-provider-kubevirt", "lab"), nil
}

// Ensure returns the binaries and first builds missing ones. While building it reports to progress
// about every ten seconds; otherwise it prints nothing. Concurrent callers build only once.
func Ensure(ctx context.Context, progress io.Writer) (*Binaries, error) {
	return ensure(ctx, progress, component.chosen)
}

// EnsureNodes is like Ensure, and also builds the programs of real nodes, and KubeVirt's and CDI's programs on them.
func EnsureNodes(ctx context.Context, progress io.Writer) (*Binaries, error) {
	return ensureNodes(ctx, progress, layout.nodePrograms, layout.servicePrograms)
}

// EnsureBareNodes is like EnsureNodes, but only builds what machines from container images need. It returns the other programs, too, if they
// have been built before.
func EnsureBareNodes(ctx context.Context, progress io.Writer) (*Binaries, error) {
	return ensureNodes(ctx, progress, layout.nodePrograms)
}

func ensureNodes(ctx context.Context, progress io.Writer, optional ...func(l layout) []step) (*Binaries, error) {
	minor, err := nodeMinors()
	if err != nil {
		return nil, err
	}
	return ensure(ctx, progress, minor, optional...)
}

// CheckNodes returns an error if the environment chooses versions that real nodes do not run. It builds nothing.
func CheckNodes() error {
	minor, err := nodeMinors()
	if err != nil {
		return err
	}
	_, _, err = currentLayout(minor)
	return err
}

// nodeMinors returns the minor versions that real nodes run.
func nodeMinors() (func(component) string, error) {
	only := map[component]string{kubernetes: cmp.Or(newestKubernetes[kubeVirt.chosen()], kubernetes.preset), cdi: cdi.preset}
	for c, minor := range only {
		if chosen := c.chosen(); chosen != "" && chosen != minor {
			return nil, fmt.Errorf("%s=%s: real nodes run %s only; unset %s", c.variable, chosen, minor, c.variable)
		}
	}
	return func(c component) string { return cmp.Or(only[c], c.chosen()) }, nil
}

// EnsureGardener is like Ensure, and also builds Gardener's components and the programs beside a CSI
// driver, for the tests of the Gardener extension.
func EnsureGardener(ctx context.Context, progress io.Writer) (*Binaries, error) {
	return ensure(ctx, progress, component.chosen, layout.gardenerPrograms)
}

// EnsureKubeVirt is like Ensure, for a minor version of KubeVirt that the environment does not choose.
func EnsureKubeVirt(ctx context.Context, progress io.Writer, minor string) (*Binaries, error) {
	return ensure(ctx, progress, func(c component) string {
		if c == kubeVirt {
			return minor
		}
		return c.chosen()
	})
}

// ensure builds what every lab needs in minor versions of the components, and the given steps.
func ensure(
	ctx context.Context, progress io.Writer, minor func(component) string, optional ...func(l layout) []step,
) (*Binaries, error) {
	l, cache, err := currentLayout(minor)
	if err != nil {
		return nil, err
	}
	assets := findAssets(ctx, os.Getenv("KUBEBUILDER_ASSETS"), l.versions[kubernetes.set].Minor(), progress)
	steps := l.steps(assets)
	for _, more := range optional {
		for _, s := range more(l) {
			s.number = len(steps) + 1
			steps = append(steps, s)
		}
	}
	if len(missing(steps)) > 0 {
		if err := build(ctx, cache, steps, progress); err != nil {
			return nil, err
		}
		if err := l.prune(time.Now()); err != nil {
			return nil, err
		}
	}
	found := l.binaries(assets)
	found.GardenerResourceManager = existing(l.targets["gardener"], resourceManager)
	found.GardenerAPIServer = existing(l.targets["gardener"], gardenerAPIServer)
	found.CSIDriver = existing(l.targets[csiDriver], csiDriver)
	found.Sidecars = l.builtSidecars()
	found.PromQL = existing(l.targets["prometheus"], "promql")
	found.Kubelet = existing(l.targets["kubelet"], "kubelet")
	found.Runc = existing(l.targets["runc"], "runc")
	found.KubeProxy = existing(l.targets[kubeProxy], kubeProxy)
	found.CoreDNS = existing(l.targets[coreDNS], coreDNS)
	found.Multus = existing(l.targets[multus], multus)
	if existing(l.targets[cdi.set], cdiClonerFiles) != "" { // the last of CDI's programs
		found.CDIImporter = existing(l.targets[cdi.set], cdiImporter)
	}
	if existing(l.targets[nodeSet], virtHandlerManifest) != "" {
		found.NodePrograms = l.targets[nodeSet]
	}
	return found, nil
}

// EnsurePromQL returns the program with Prometheus' parser and rules, and first builds it if it is missing.
func EnsurePromQL(ctx context.Context, progress io.Writer) (string, error) {
	l, cache, err := currentLayout(component.chosen)
	if err != nil {
		return "", err
	}
	s := l.promQL()
	if !s.done() {
		if err := build(ctx, cache, []step{s}, progress); err != nil {
			return "", err
		}
	}
	return filepath.Join(s.target, s.outputs[0]), nil
}

// currentLayout returns the layout of this repository in the user's cache folder, for minor versions of the components.
func currentLayout(minor func(component) string) (l layout, cache string, err error) {
	modules, err := modulesDir()
	if err != nil {
		return layout{}, "", err
	}
	if cache, err = CacheDir(); err != nil {
		return layout{}, "", err
	}
	l, err = newLayout(modules, cache, minor)
	return l, cache, err
}

// existing returns the path of an optional file of a set, or "" if it has not been built.
func existing(folder, name string) string {
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// build runs the missing steps under a lock shared by all labs of this user.
func build(ctx context.Context, cache string, steps []step, progress io.Writer) error {
	unlock, err := lock(ctx, filepath.Join(cache, "build.lock"), progress)
	if err != nil {
		return err
	}
	defer unlock()
	todo := missing(steps) // check again: another lab may have built them meanwhile
	r := reporter{out: progress, todo: todo, total: len(steps), started: time.Now()}
	for i := range todo {
		stop := r.begin(i)
		err := todo[i].run(ctx)
		stop()
		if err != nil {
			return fmt.Errorf("build %s: %w", todo[i].name, err)
		}
	}
	if len(todo) > 0 {
		r.finish()
	}
	return nil
}

func missing(steps []step) []step {
	var todo []step
	for _, s := range steps {
		if !s.done() {
			todo = append(todo, s)
		}
	}
	return todo
}
