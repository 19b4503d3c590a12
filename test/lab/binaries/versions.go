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
)

// KubeVirtVariable is the environment variable that chooses the lab's KubeVirt by its minor version,
// such as 1.8.
const KubeVirtVariable = "KUBEVIRT"

// defaultKubeVirt is the minor version that the lab runs if the environment chooses none.
const defaultKubeVirt = "1.7"

// Version is a released version, such as v1.7.0.
type Version string

// Minor returns the minor version, such as 1.7.
func (v Version) Minor() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(string(v), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

// kubeVirtSet returns the module folder of a minor version of KubeVirt, or of the default.
func kubeVirtSet(modules, minor string) (folder string, err error) {
	const prefix = "kubevirt-"
	folders, err := filepath.Glob(filepath.Join(modules, prefix+"*"))
	if err != nil {
		return "", fmt.Errorf("list versions of KubeVirt: %w", err)
	}
	wanted := filepath.Join(modules, prefix+cmp.Or(minor, defaultKubeVirt))
	if !slices.Contains(folders, wanted) {
		for i := range folders {
			folders[i] = strings.TrimPrefix(filepath.Base(folders[i]), prefix)
		}
		return "", fmt.Errorf("%s=%s: the lab has no such version, only %s", KubeVirtVariable, minor, strings.Join(folders, ", "))
	}
	return wanted, nil
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
