// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// component is a part of the lab that has a module set for each of several minor versions, in a
// folder such as kubevirt-1.8. The environment chooses one of them.
type component struct {
	set      string // its binaries, and the beginning of the folders' names
	variable string // the environment variable with the minor version
	module   string // the Go module with the version of the component
	preset   string // the minor version if the environment chooses none
}

// KubeVirtVariable is the environment variable that chooses the lab's KubeVirt by its minor version, and
// KubeVirtPreset the minor version if it chooses none.
const (
	KubeVirtVariable = "KUBEVIRT"
	KubeVirtPreset   = "1.9"
)

var (
	// kubernetes has the programs of all control planes in the lab.
	kubernetes = component{set: "kubernetes", variable: "KUBERNETES", module: "k8s.io/kubernetes", preset: "1.34"}
	kubeVirt   = component{set: "kubevirt", variable: KubeVirtVariable, module: "kubevirt.io/kubevirt", preset: KubeVirtPreset}
	cdi        = component{set: "cdi", variable: "CDI", module: "kubevirt.io/containerized-data-importer", preset: "1.65"}

	components = []component{kubernetes, kubeVirt, cdi}
)

// newestKubernetes is the newest minor version of Kubernetes under which a minor version of KubeVirt
// runs, if it does not run under the preset one. Since 1.34, Kubernetes sets observedGeneration in the
// conditions of pods. virt-controller 1.6 reads them without that field, so its patch, which tests
// them, is refused as long as the pod lives (kubevirt/kubevirt#15586).
var newestKubernetes = map[string]string{"1.6": "1.33"}

// supported completes a choice of minor versions by a Kubernetes under which the chosen KubeVirt runs.
func supported(minor func(component) string) (func(component) string, error) {
	newest, limited := newestKubernetes[minor(kubeVirt)]
	if !limited {
		return minor, nil
	}
	chosen := cmp.Or(minor(kubernetes), newest)
	if chosen > newest {
		return nil, fmt.Errorf("%s=%s: %s=%s runs under Kubernetes %s and older",
			kubernetes.variable, chosen, kubeVirt.variable, minor(kubeVirt), newest)
	}
	return func(c component) string {
		if c == kubernetes {
			return chosen
		}
		return minor(c)
	}, nil
}

// nodeFolder returns the module folder that the programs of real nodes are built from, for the KubeVirt of a folder: another one with the
// same minor version, or that folder.
func nodeFolder(kubeVirtFolder string) string {
	modules, name := filepath.Split(kubeVirtFolder)
	folder := filepath.Join(modules, nodeSet+strings.TrimPrefix(name, kubeVirt.set))
	if _, err := os.Stat(folder); err != nil {
		return kubeVirtFolder
	}
	return folder
}

// chosen returns the minor version that the environment chooses, or "".
func (c component) chosen() string { return os.Getenv(c.variable) }

// minors returns the minor versions that the lab has.
func (c component) minors(modules string) ([]string, error) {
	prefix := filepath.Join(modules, c.set+"-")
	folders, err := filepath.Glob(prefix + "*")
	if err != nil {
		return nil, fmt.Errorf("list versions of %s: %w", c.set, err)
	}
	for i := range folders {
		folders[i] = strings.TrimPrefix(folders[i], prefix)
	}
	return folders, nil
}

// folder returns the module folder of a minor version, or of the preset one.
func (c component) folder(modules, minor string) (string, error) {
	minors, err := c.minors(modules)
	if err != nil {
		return "", err
	}
	minor = cmp.Or(minor, c.preset)
	if !slices.Contains(minors, minor) {
		return "", fmt.Errorf("%s=%s: the lab has no such version, only %s", c.variable, minor, strings.Join(minors, ", "))
	}
	return filepath.Join(modules, c.set+"-"+minor), nil
}

// Version is a released version, such as v1.7.0.
type Version string

// Minor returns the minor version, such as 1.7.
func (v Version) Minor() string {
	major, minor := v.numbers()
	return major + "." + minor
}

// Before reports whether the version is older than a minor version.
func (v Version) Before(minor string) bool {
	return version.MustParseGeneric(string(v)).LessThan(version.MustParseGeneric(minor))
}

func (v Version) numbers() (major, minor string) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(string(v), "v"), ".")
	minor, _, _ = strings.Cut(rest, ".")
	return major, minor
}

// required returns the version of a module that the module in a folder requires.
func required(folder, module string) (Version, error) {
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read versions: %w", err)
	}
	match := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(data)
	if match == nil {
		return "", errors.New(folder + "/go.mod does not require " + module)
	}
	return Version(match[1]), nil
}
