// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHashModule(t *testing.T) {
	t.Parallel()
	module := func(mod, main string) fstest.MapFS {
		return fstest.MapFS{"go.mod": {Data: []byte(mod)}, "cmd/x/main.go": {Data: []byte(main)}}
	}
	base, err := hashModule(module("a", "b"))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		reason string
		module fstest.MapFS
		equal  bool
	}{
		"same":       {reason: "a fresh clone finds the binaries", module: module("a", "b"), equal: true},
		"version":    {reason: "a new version is built again", module: module("a2", "b")},
		"own main":   {reason: "so is a changed main package of ours", module: module("a", "b2")},
		"shifted":    {reason: "the border between files counts", module: module("ab", "")},
		"file added": {reason: "every file counts", module: fstest.MapFS{"go.mod": {Data: []byte("a")}}},
		"file renamed": {
			reason: "names count",
			module: fstest.MapFS{
				"go.mod": {Data: []byte("a")}, "cmd/y/main.go": {Data: []byte("b")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hash, err := hashModule(test.module)
			require.NoError(t, err)
			require.Equal(t, test.equal, base == hash, test.reason)
		})
	}
}

func produceFiles(names ...string) producer {
	return func(_ context.Context, _ step, into string) error {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(into, name), []byte(name), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	target := filepath.Join(cache, "set-1")
	failure := errors.New("no compiler")
	good := step{number: 1, name: "good", target: target, outputs: []string{"a", "b"}, produce: produceFiles("a", "b")}
	half := step{
		number:   2,
		name:     "half",
		target:   target,
		estimate: time.Minute,
		outputs:  []string{"c", "d"},
		produce: func(ctx context.Context, s step, into string) error {
			return errors.Join(produceFiles("c")(ctx, s, into), failure)
		},
	}
	var progress bytes.Buffer
	err := build(t.Context(), cache, []step{good, half}, &progress)
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "build half")
	require.FileExists(t, filepath.Join(target, "a"), "a finished step is kept")
	require.NoFileExists(t, filepath.Join(target, "c"), "the outputs of a failed step are removed")
	require.NoDirExists(t, filepath.Join(target, ".building"))

	progress.Reset()
	half.produce = produceFiles("c", "d")
	require.NoError(t, build(t.Context(), cache, []step{good, half}, &progress))
	require.NotContains(t, progress.String(), "good", "existing binaries are not built again")
	require.Contains(t, progress.String(), "step 2/2 half, 0:00, about 1 min left")
}

func TestLine(t *testing.T) {
	t.Parallel()
	r := reporter{
		total: 9,
		todo: []step{
			{number: 3, name: "kube-apiserver", estimate: 5 * time.Minute},
			{number: 4, name: "KubeVirt", estimate: 11 * time.Minute},
		},
	}
	require.Equal(t, "step 3/9 kube-apiserver, 2:10, about 14 min left", r.line(0, 130*time.Second))
	require.Equal(t, "step 3/9 kube-apiserver, 5:10, longer than expected, then about 11 min", r.line(0, 310*time.Second))
	require.Equal(t, "step 4/9 KubeVirt, 20:00, longer than expected", r.line(1, 20*time.Minute))
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "build.lock")
	unlock, err := lock(t.Context(), file, &bytes.Buffer{})
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	_, err = lock(short, file, &progress)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, progress.String(), "another lab is building")
	unlock()
	unlock, err = lock(t.Context(), file, &progress)
	require.NoError(t, err)
	unlock()
}

func TestFindAssets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason     string
		etcd, kube string // output of --version; empty: binary missing
		want       []string
	}{
		"usable":    {reason: "both are taken", etcd: "etcd Version: 3.6.4", kube: "Kubernetes v1.34.1", want: []string{"etcd", "kube-apiserver"}},
		"too old":   {reason: "the controllers may not be newer than their server", etcd: "etcd Version: 3.5.21", kube: "Kubernetes v1.33.0", want: []string{"etcd"}},
		"too new":   {reason: "the tests would not run the chosen version", etcd: "etcd Version: 3.6.4", kube: "Kubernetes v1.35.0", want: []string{"etcd"}},
		"no number": {reason: "an unstamped server makes MCM refuse", etcd: "etcd Version: 3.6.4", kube: "Kubernetes v0.0.0-master+$Format:%H$", want: []string{"etcd"}},
		"missing":   {reason: "an empty folder is not an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for binary, output := range map[string]string{"etcd": test.etcd, "kube-apiserver": test.kube} {
				if output != "" {
					script := "#!/bin/sh\necho '" + output + "'\n"
					require.NoError(t, os.WriteFile(filepath.Join(folder, binary), []byte(script), 0o700))
				}
			}
			found := findAssets(t.Context(), folder, "1.34", &bytes.Buffer{})
			require.Len(t, found, len(test.want), test.reason)
			for _, binary := range test.want {
				require.Equal(t, filepath.Join(folder, binary), found.path(binary), test.reason)
			}
		})
	}
}

func TestStepsMakeEveryBinary(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	l, err := newLayout(modules, t.TempDir(), presets)
	require.NoError(t, err)
	made := map[string]bool{}
	for _, s := range l.steps(assets{}) {
		for _, name := range s.outputs {
			made[filepath.Join(s.target, name)] = true
		}
	}
	b := l.binaries(assets{})
	for _, path := range []string{
		b.Etcd, b.KubeAPIServer, b.KubeControllerManager, b.KubeScheduler, b.Kubectl, b.VirtAPI, b.VirtController,
		b.CDIAPIServer, b.CDIController, b.MCM, b.KubeVirtManifests, b.CDIManifests, b.MCMCRDs,
	} {
		require.True(t, made[path], path)
	}
	require.Len(t, l.steps(assets{"etcd": "/x"}), len(l.steps(assets{}))-1, "a binary of the caller is not built")
}

// presets chooses the preset version of each component.
func presets(component) string { return "" }

// TestVersions shows that each set has the version of its folder's name, and its own build output, and
// that docs/compatibility.md names the version.
func TestVersions(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(modules, "..", "..", "..", "docs", "compatibility.md"))
	require.NoError(t, err)
	for _, c := range components {
		t.Run(c.set, func(t *testing.T) {
			t.Parallel()
			minors, err := c.minors(modules)
			require.NoError(t, err)
			targets := map[string]string{}
			for _, minor := range minors {
				l, err := newLayout(modules, "/cache", only(c, minor))
				require.NoError(t, err)
				require.Equal(t, minor, l.versions[c.set].Minor())
				require.Contains(t, string(page), strings.TrimPrefix(string(l.versions[c.set]), "v"))
				targets[l.targets[c.set]] = minor
			}
			require.Len(t, targets, len(minors))

			l, err := newLayout(modules, "/cache", presets)
			require.NoError(t, err)
			require.Equal(t, c.preset, l.versions[c.set].Minor())

			_, err = newLayout(modules, "/cache", only(c, "1.5"))
			require.ErrorContains(t, err, c.variable+"=1.5: the lab has no such version, only "+strings.Join(minors, ", "))
		})
	}
}

// only chooses a minor version of one component, and the preset versions of the others.
func only(c component, minor string) func(component) string {
	return func(other component) string {
		if other == c {
			return minor
		}
		return ""
	}
}

// TestLayoutOfAVersion shows that a version of Kubernetes changes the output of no other component.
func TestLayoutOfAVersion(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	preset, err := newLayout(modules, "/cache", presets)
	require.NoError(t, err)
	chosen, err := newLayout(modules, "/cache", only(kubernetes, "1.32"))
	require.NoError(t, err)
	for set, target := range preset.targets {
		require.Equal(t, set == kubernetes.set, chosen.targets[set] != target, set)
	}
	b := chosen.binaries(assets{})
	require.Equal(t, "1.32", b.KubernetesVersion.Minor())
	require.Contains(t, b.KubeAPIServer, "/cache/kubernetes-1.32-")
	require.Equal(t, "1.34", chosen.versions["kubelet"].Minor(), "real nodes have one kubelet")
}

// TestOldKubeVirt shows that KubeVirt runs under a Kubernetes that it supports, and under no newer one.
func TestOldKubeVirt(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	under := func(kubernetesMinor string) (layout, error) {
		return newLayout(modules, "/cache", func(c component) string {
			return map[component]string{kubeVirt: "1.6", kubernetes: kubernetesMinor}[c]
		})
	}
	for chosen, want := range map[string]string{"": "1.33", "1.32": "1.32", "1.33": "1.33"} {
		l, err := under(chosen)
		require.NoError(t, err)
		require.Equal(t, want, l.versions[kubernetes.set].Minor(), "%q", chosen)
		require.Equal(t, "1.6", l.versions[kubeVirt.set].Minor())
	}
	_, err = under("1.34")
	require.ErrorContains(t, err, "KUBERNETES=1.34: KUBEVIRT=1.6 runs under Kubernetes 1.33 and older")
}

// TestNodeVersions requires the programs of real nodes to have the versions of the lab's components.
func TestNodeVersions(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]struct{ module, minor string }{
		"kubelet":    {module: kubernetes.module, minor: kubernetes.preset},
		"kube-proxy": {module: kubernetes.module, minor: kubernetes.preset},
	} {
		version, err := required(filepath.Join("../modules", set), want.module)
		require.NoError(t, err)
		require.Equal(t, want.minor, version.Minor(), set)
	}
}

// TestNodePrograms requires real nodes to run the chosen KubeVirt, and only the programs that it has.
func TestNodePrograms(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	for minor, folder := range map[string]string{"1.6": "kubevirt-1.6", "1.7": "kubevirt-1.7", "1.8": "kubevirt-1.8", "1.9": "node-1.9"} {
		l, err := newLayout(modules, "/cache", only(kubeVirt, minor))
		require.NoError(t, err)
		require.Equal(t, filepath.Join(modules, folder), l.modules[nodeSet])
		require.Equal(t, l.versions[kubeVirt.set], l.versions[nodeSet])
		var made []string
		for _, s := range l.nodePrograms() {
			if s.target == l.targets[nodeSet] {
				made = append(made, s.outputs...)
			}
		}
		names := l.binaries(assets{}).NodeProgramNames()
		require.ElementsMatch(t, append(names, virtHandlerManifest, launcherFiles), made, minor)
		require.Equal(t, minor >= "1.8", slices.Contains(names, "libvirt-hook-client"), minor)
	}
}

func TestBefore_ComparesNumbers(t *testing.T) {
	t.Parallel()
	require.True(t, Version("v1.8.4").Before("1.9"))
	require.False(t, Version("v1.9.0").Before("1.9"))
	require.False(t, Version("v1.10.0").Before("1.9"))
}

// TestEnsureNodes_RefusesOtherVersions requires an error for each version that real nodes do not run.
func TestEnsureNodes_RefusesOtherVersions(t *testing.T) { //nolint:paralleltest // sets environment variables
	for want, chosen := range map[string]map[string]string{
		"KUBERNETES=1.32: real nodes run 1.34 only": {kubernetes.variable: "1.32"},
		"KUBERNETES=1.34: real nodes run 1.33 only": {kubernetes.variable: "1.34", kubeVirt.variable: "1.6"},
		"KUBEVIRT=1.5: the lab has no such version": {kubeVirt.variable: "1.5"},
		"CDI=1.64: real nodes run 1.65 only":        {cdi.variable: "1.64"},
	} {
		t.Run(want, func(t *testing.T) {
			for variable, minor := range chosen {
				t.Setenv(variable, minor)
			}
			_, err := EnsureNodes(t.Context(), io.Discard)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestKubernetesLdflags(t *testing.T) {
	t.Parallel()
	const set = " -X k8s.io/component-base/version."
	require.Equal(t, "-s -w"+set+"gitVersion=v1.36.3"+set+"gitMajor=1"+set+"gitMinor=36", kubernetesLdflags("v1.36.3"))
}

// TestEveryVersionIsTested requires the weekly workflow to run the driver's and the extension's tests
// with the versions of each component that the tests of every change do not run, and real nodes with those of KubeVirt.
func TestEveryVersionIsTested(t *testing.T) {
	t.Parallel()
	workflow, err := os.ReadFile("../../../.github/workflows/weekly.yaml")
	require.NoError(t, err)
	for _, c := range components {
		minors, err := c.minors("../modules")
		require.NoError(t, err)
		for _, minor := range minors {
			command := "- command: test-integration " + c.variable + "=" + minor + "\n"
			require.Equal(t, minor != c.preset, strings.Contains(string(workflow), command), command)
			onNodes := " make test-migration " + c.variable + "=" + minor + "\n"
			require.Equal(t, c == kubeVirt && minor != c.preset, strings.Contains(string(workflow), onNodes), onNodes)
		}
	}
}

// TestInterruptedStepLeavesNothing interrupts the go command while it
// compiles the standard library.
func TestInterruptedStepLeavesNothing(t *testing.T) { //nolint:paralleltest // sets environment variables
	module := t.TempDir()
	target := t.TempDir()
	temporary := t.TempDir()
	t.Setenv("GOCACHE", t.TempDir()) // forces a compilation
	t.Setenv("TMPDIR", temporary)
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(module, "main.go"), []byte("package main\n\nimport _ \"net/http\"\n\nfunc main() {}\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- step{module: module, target: target, outputs: []string{"x"}, produce: compiled(ldflags, ".")}.run(ctx)
	}()
	require.Eventually(t, func() bool {
		inTarget, err := filepath.Glob(filepath.Join(target, ".building", "go-build*", "*"))
		require.NoError(t, err)
		inTemporary, err := filepath.Glob(filepath.Join(temporary, "go-build*", "*"))
		require.NoError(t, err)
		return len(inTarget)+len(inTemporary) > 0
	}, time.Minute, 10*time.Millisecond, "go has a folder for its work")
	cancel()
	require.Error(t, <-ended)
	for _, folder := range []string{target, temporary} {
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
