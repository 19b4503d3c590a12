// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
)

// features is a script that prints the features of the kernel that nodes need and that do not work in a folder, its second argument, and in a
// network namespace of its own. Its first argument is the root folder of nodes. Modules are loaded as the nodes would.
const features = `
try() {
  name=$1
  shift
  "$@" > /dev/null 2>&1 || echo "$name"
}
cd "$2"
mkdir lower upper work merged
try overlay mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
try bridge chroot "$1" ip link add bridge type bridge
try veth chroot "$1" ip link add veth type veth peer name peer
try vxlan chroot "$1" ip link add vxlan type vxlan id 1 group 239.0.0.1 dev veth dstport 4789
try nf_tables chroot "$1" nft add table ip lab
mknod tun c 10 200
mknod fuse c 10 229
try tun sh -c ': < tun'
try fuse sh -c ': < fuse'
`

// CheckKernel returns an error that wraps host.ErrMissing and names the features of the kernel that nodes lack. It needs the root folder of
// package root, and a folder on the disk of the nodes, from which it removes what it makes.
func CheckKernel(ctx context.Context, root, parent string) error {
	folder, err := os.MkdirTemp(parent, "check-")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	command := exec.CommandContext(ctx, "unshare", "--mount", "--propagation=private", "--net", "sh", "-c", features, "sh", root, folder)
	command.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	output, err := command.Output()
	if err = errors.Join(err, os.RemoveAll(folder)); err != nil {
		return fmt.Errorf("try the features of the kernel: %w", err)
	}
	return lacking(strings.Fields(string(output)), parent)
}

// lacking returns an error that names these features.
func lacking(features []string, folder string) error {
	if len(features) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the kernel refuses %s. Load the modules of these names, or use a kernel that has them. An overlay is also refused on "+
		"another one, such as the disk of a container: set XDG_CACHE_HOME to a volume then, instead of %s", host.ErrMissing, strings.Join(features, ", "), folder)
}
