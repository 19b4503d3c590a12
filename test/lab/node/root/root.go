// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package root unpacks the root folder of real nodes, which is also the lower layer of virt-launcher's image: packages of Debian.
//
// Package node runs nodes from it, package images archives it, and package guest unpacks other packages. It must not depend on them.
package root

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

//go:embed packages.txt
var packageList string

const (
	// suite has a libvirt and a QEMU that are one minor version older than those of KubeVirt 1.9. Those of
	// Debian 12 refuse its domains.
	suite = "trixie"
	// maxAge bounds the age of the folder, since Debian changes the packages of a suite.
	maxAge = 30 * 24 * time.Hour
	folder = "root"
	// versionsFile is beside the folder.
	versionsFile = "versions"
	// checkTimeout bounds the request of Check.
	checkTimeout = 20 * time.Second
)

// Ensure returns the root folder, and first unpacks it unless a recent one exists.
func Ensure(ctx context.Context, progress io.Writer) (string, error) {
	found, err := binaries.EnsureArtifact(ctx, progress, artifact())
	return filepath.Join(found, folder), err
}

func artifact() binaries.Artifact {
	sum := sha256.Sum256([]byte(suite + packageList + versionsFile + strings.Join(arguments("", "", packageList), " ")))
	return binaries.Artifact{
		Name:     "Debian's packages for nodes",
		Set:      "debian",
		Hash:     hex.EncodeToString(sum[:])[:12],
		Outputs:  []string{folder, versionsFile},
		Estimate: 80 * time.Second,
		MaxAge:   maxAge,
		Produce: func(ctx context.Context, into string) error {
			unpacked := filepath.Join(into, folder)
			if err := Unpack(ctx, packageList, unpacked); err != nil {
				return err
			}
			return WriteVersions(ctx, unpacked, filepath.Join(into, versionsFile))
		},
	}
}

// Check returns an error that names the remedy unless the disk has room, and recent folders exist or Debian's packages can be reached.
func Check(ctx context.Context) error {
	cache, err := binaries.CacheDir()
	if err != nil {
		return err
	}
	if err := host.CheckDisk(cache); err != nil {
		return err
	}
	built, err := artifact().Built()
	if err != nil {
		return err
	}
	unpacked, err := kernelArtifact().Built()
	if err != nil || built && unpacked {
		return err
	}
	mirror, err := mirror(sourceFiles())
	if err != nil {
		return err
	}
	return reach(ctx, mirror)
}

// reach returns an error unless a mirror has the suite.
func reach(ctx context.Context, mirror string) error {
	release := mirror + "/dists/" + suite + "/InRelease"
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, release, http.NoBody)
	if err != nil {
		return fmt.Errorf("read the sources of packages: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("real nodes need packages of Debian: %w; name a mirror that can be reached in /etc/apt/sources.list, or set http_proxy", err)
	}
	_ = response.Body.Close() // nothing was read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("real nodes need packages of Debian: %s answers %s; name a mirror with %s in /etc/apt/sources.list", release, response.Status, suite)
	}
	return nil
}

// sourceFiles returns the files that mirror reads.
func sourceFiles() (sources, list string) {
	return "/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"
}

// Unpack makes a folder of packages and what they depend on, with more options of mmdebstrap.
func Unpack(ctx context.Context, packages, into string, options ...string) error {
	mirror, err := mirror(sourceFiles())
	if err != nil {
		return err
	}
	if err := process.Run(ctx, Command(ctx, "mmdebstrap", arguments(into, mirror, packages, options...)...)); err != nil {
		return fmt.Errorf("unpack Debian's packages: %w", err)
	}
	return nil
}

// WriteVersions writes the names and versions of all packages that were unpacked into a folder to a file, a line each.
func WriteVersions(ctx context.Context, folder, file string) error {
	output, err := Command(ctx, "chroot", folder, "dpkg-query", "--show").Output()
	if err != nil {
		return fmt.Errorf("list the packages in %s: %w", folder, err)
	}
	if err := os.WriteFile(file, output, 0o600); err != nil {
		return fmt.Errorf("write the versions of packages: %w", err)
	}
	return nil
}

// Versions returns the versions of some packages of a folder of Ensure, or of another folder with a file of WriteVersions beside it.
func Versions(folder string, packages ...string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(folder), versionsFile))
	if err != nil {
		return nil, fmt.Errorf("read the versions of packages: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name, _, _ = strings.Cut(name, ":") // the architecture
		if slices.Contains(packages, name) {
			found = append(found, name+" "+version)
		}
	}
	return found, nil
}

// Command returns a command in namespaces of its own, in which it may mount, and with which everything ends that it has started.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	own := []string{"--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc", program}
	command := exec.CommandContext(ctx, "unshare", append(own, args...)...)
	command.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	return command
}

// arguments are those of mmdebstrap.
func arguments(into, mirror, packages string, options ...string) []string {
	return append(append([]string{
		"--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(strings.Fields(packages), ","),
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
	}, options...), suite, into, fmt.Sprintf("deb [signed-by=%s] %s %s main", host.Keyring, mirror, suite))
}

// address matches an address that mmdebstrap can use: lists of mirrors (mirror+file:) are not for all suites, and
// debian-security is another archive.
const address = `(https?://\S*/debian/?)(?:\s|$)`

// sourceFormats matches the mirror in the two formats of sources: the fields of deb822, and lines.
var (
	deb822 = regexp.MustCompile(`(?m)^URIs:(?:.*\s)?` + address)
	line   = regexp.MustCompile(`(?m)^deb\s+(?:\[[^]]*\]\s+)?` + address)
)

// mirror returns the mirror of this machine's first source of Debian's packages, which is the nearest one, or Debian's if
// this machine has no such source.
func mirror(sources, list string) (string, error) {
	for _, source := range []struct {
		file   string
		format *regexp.Regexp
	}{{file: sources, format: deb822}, {file: list, format: line}} {
		data, err := os.ReadFile(filepath.Clean(source.file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the sources of packages: %w", err)
		}
		if match := source.format.FindSubmatch(data); match != nil {
			return strings.TrimSuffix(string(match[1]), "/"), nil
		}
	}
	return "http://deb.debian.org/debian", nil
}
