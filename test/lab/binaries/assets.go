package binaries

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// assets maps names to paths of binaries the caller already has.
type assets map[string]string

func (a assets) path(name string) string { return a[name] }

// findAssets returns the usable binaries of a folder such as $KUBEBUILDER_ASSETS. Unusable binaries
// are reported to progress and built instead.
func findAssets(ctx context.Context, folder string, progress io.Writer) assets {
	found := assets{}
	if folder == "" {
		return found
	}
	for name, usable := range map[string]func(output string) bool{"etcd": usableEtcd, "kube-apiserver": usableAPIServer} {
		path := filepath.Join(folder, name)
		output, err := exec.CommandContext(ctx, path, "--version").Output()
		switch {
		case err != nil:
			fmt.Fprintf(progress, "not using %s: %v\n", path, err)
		case !usable(string(output)):
			fmt.Fprintf(progress, "not using %s: it is %.60q\n", path, output)
		default:
			found[name] = path
		}
	}
	return found
}

func usableEtcd(output string) bool {
	return regexp.MustCompile(`(?m)^etcd Version: 3\.[5-9]\.`).MatchString(output)
}

// usableAPIServer accepts the version of the lab's controllers or newer; controllers may not be
// newer than their API server.
func usableAPIServer(output string) bool {
	const minMinor = 34
	match := regexp.MustCompile(`^Kubernetes v1\.(\d+)\.\d+`).FindStringSubmatch(output)
	if match == nil {
		return false
	}
	minor, err := strconv.Atoi(match[1])
	return err == nil && minor >= minMinor
}
