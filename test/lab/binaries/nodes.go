// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// nodeSet is the module set with KubeVirt's programs for nodes and launchers.
const nodeSet = "node"

// Files in Binaries.NodePrograms besides the programs.
const (
	virtHandlerManifest = "virt-handler.json"
	launcherFiles       = "virt-launcher-files"
)

// The programs of CDI's pods. cdiClonerFiles is a folder with the script that starts one of them.
const (
	cdiImporter     = "cdi-importer"
	cdiCloner       = "cdi-cloner"
	cdiUploadServer = "cdi-uploadserver"
	cdiClonerFiles  = "cdi-cloner-files"
)

// Programs of real nodes' network.
const (
	kubeProxy = "kube-proxy"
	coreDNS   = "coredns"
	multus    = "multus"
)

// multusModule is the module of Multus, and multusFiles its folder of manifests.
const (
	multusModule = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
	multusFiles  = "multus-files"
)

// CDIPrograms returns the files of CDI's pods by their names in the images; none unless they have been built.
func (b *Binaries) CDIPrograms() map[string]string {
	if b.CDIImporter == "" {
		return nil
	}
	folder := filepath.Dir(b.CDIImporter)
	return map[string]string{
		cdiImporter:         b.CDIImporter,
		cdiCloner:           filepath.Join(folder, cdiCloner),
		cdiUploadServer:     filepath.Join(folder, cdiUploadServer),
		"cloner_startup.sh": filepath.Join(folder, cdiClonerFiles, "cloner_startup.sh"),
	}
}

// The module of KubeVirt, and its folder of commands.
const (
	kubeVirtModule   = "kubevirt.io/kubevirt"
	kubeVirtCommands = kubeVirtModule + "/cmd/"
)

// VirtHandlerManifest returns the file with the DaemonSet of virt-handler, in JSON.
func (b *Binaries) VirtHandlerManifest() string {
	return filepath.Join(b.NodePrograms, virtHandlerManifest)
}

// MultusManifest returns the file with Multus' manifests.
func (b *Binaries) MultusManifest() string {
	return filepath.Join(filepath.Dir(b.Multus), multusFiles, "multus-daemonset.yml")
}

// LauncherFiles returns the folder with the files that KubeVirt adds to the image of virt-launcher.
func (b *Binaries) LauncherFiles() string { return filepath.Join(b.NodePrograms, launcherFiles) }

// NodeProgramNames returns the names of the programs in the image of virt-handler and virt-launcher.
func (b *Binaries) NodeProgramNames() []string {
	return append([]string{"virt-launcher", "virt-handler", "container-disk"}, staticPrograms(b.KubeVirtVersion)...)
}

// staticPrograms are those of KubeVirt's programs that need no C compiler.
func staticPrograms(kubeVirtVersion Version) []string {
	programs := []string{"virt-chroot", "virt-launcher-monitor", "virt-probe", "virt-tail", "virt-freezer"}
	if kubeVirtVersion.Before("1.8") {
		return programs
	}
	return append(programs, "libvirt-hook-client")
}

// nodeStep returns a step of a module set.
func (l layout) nodeStep(name, set string, estimate time.Duration, outputs []string, produce producer) step {
	return step{
		name:     name,
		module:   l.modules[set],
		target:   l.targets[set],
		outputs:  outputs,
		estimate: estimate,
		produce:  produce,
	}
}

// nodePrograms returns the steps that build the programs of real nodes.
func (l layout) nodePrograms() []step {
	const tags = "netgo,osusergo"
	static := staticPrograms(l.versions[nodeSet])
	packages := []string{}
	for _, name := range static {
		packages = append(packages, kubeVirtCommands+map[string]string{"libvirt-hook-client": "virt-launcher/"}[name]+name)
	}
	return []step{
		l.nodeStep("kubelet", "kubelet", 60*time.Second, []string{"kubelet"}, compiled(kubernetesLdflags(l.versions["kubelet"]), "k8s.io/kubernetes/cmd/kubelet")),
		l.nodeStep("runc", "runc", 40*time.Second, []string{"runc"}, compileWithC(tags, "github.com/opencontainers/runc")),
		// libvirt_dlopen loads libvirt at run time, so that this machine needs no headers of it.
		l.nodeStep("virt-launcher", nodeSet, 80*time.Second, []string{"virt-launcher"},
			compileWithC(tags+",libvirt_dlopen", kubeVirtCommands+"virt-launcher")),
		l.nodeStep("virt-handler", nodeSet, 40*time.Second, []string{"virt-handler"},
			compileWithAddition(tags+",libvirt_dlopen", kubeVirtModule, "cmd/virt-handler", "additions/virt-handler.go")),
		l.nodeStep("KubeVirt's other programs for nodes", nodeSet, 30*time.Second, static, compiled(ldflags, packages...)),
		l.nodeStep("container-disk", nodeSet, time.Second, []string{"container-disk"}, compiledFromC(kubeVirtModule, "cmd/container-disk-v2alpha/main.c")),
		l.nodeStep("KubeVirt's files for launchers", nodeSet, time.Second, []string{launcherFiles}, copied(kubeVirtModule, "cmd/virt-launcher")),
		l.nodeStep("virt-handler's DaemonSet", nodeSet, 5*time.Second, []string{virtHandlerManifest}, printed("./cmd/virt-handler-manifest")),
	}
}

// servicePrograms returns the steps that build what imports, clones, Services and networks need.
func (l layout) servicePrograms() []step {
	return []step{
		l.nodeStep("CDI's importer", cdi.set, 200*time.Second, []string{cdiImporter}, compiled(ldflags, cdi.module+"/cmd/cdi-importer")),
		l.nodeStep("CDI's cloner and upload server", cdi.set, 40*time.Second, []string{cdiCloner, cdiUploadServer, cdiClonerFiles},
			both(compiled(ldflags, cdi.module+"/cmd/cdi-cloner", cdi.module+"/cmd/cdi-uploadserver"), copied(cdi.module, "cmd/cdi-cloner"))),
		l.nodeStep(kubeProxy, kubeProxy, 90*time.Second, []string{kubeProxy}, compiled(kubernetesLdflags(l.versions["kubelet"]), "k8s.io/kubernetes/cmd/kube-proxy")),
		l.nodeStep("CoreDNS", coreDNS, 120*time.Second, []string{coreDNS}, compiled(ldflags, "./cmd/coredns")),
		l.nodeStep("Multus", multus, 40*time.Second, []string{multus, multusFiles},
			both(compiled(ldflags, multusModule+"/cmd/multus"), copied(multusModule, "deployments"))),
	}
}

// compileWithC builds one package with cgo for each of the step's outputs.
func compileWithC(tags string, packages ...string) producer {
	return func(ctx context.Context, s step, into string) error {
		for i, name := range s.outputs {
			err := goBuildWith(ctx, s.module, []string{"CGO_ENABLED=1"}, filepath.Join(into, name), packages[i:i+1], "-tags="+tags, "-ldflags="+ldflags)
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// compileWithAddition builds a command with cgo and with one file more, which is in the step's own module.
func compileWithAddition(tags, module, command, addition string) producer {
	return func(ctx context.Context, s step, into string) error {
		source, err := moduleFolder(ctx, s.module, module)
		if err != nil {
			return err
		}
		// The files of a command that is not a package of the module must be in one folder.
		files, err := filepath.Glob(filepath.Join(source, command, "*.go"))
		if err != nil {
			return fmt.Errorf("list the files of %s: %w", command, err)
		}
		folder := filepath.Join(into, "command")
		if err := os.Mkdir(folder, 0o750); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
		var copies []string
		for _, file := range append(files, filepath.Join(s.module, addition)) {
			to := filepath.Join(folder, fmt.Sprintf("%d.go", len(copies)))
			data, err := os.ReadFile(filepath.Clean(file))
			if err != nil {
				return fmt.Errorf("read %s: %w", filepath.Base(file), err)
			}
			if err := os.WriteFile(to, data, 0o600); err != nil {
				return fmt.Errorf("copy %s: %w", filepath.Base(file), err)
			}
			copies = append(copies, to)
		}
		return goBuildWith(ctx, s.module, []string{"CGO_ENABLED=1"}, filepath.Join(into, s.outputs[0]), copies, "-tags="+tags, "-ldflags="+ldflags)
	}
}

// compiledFromC builds a static program from a C file of a module that the step's own module requires.
func compiledFromC(module, file string) producer {
	return func(ctx context.Context, s step, into string) error {
		folder, err := moduleFolder(ctx, s.module, module)
		if err != nil {
			return err
		}
		source := filepath.Join(folder, file)
		command := exec.CommandContext(ctx, "gcc", "-static", "-O2", "-o", filepath.Join(into, s.outputs[0]), source)
		if _, err := runCommand(command); err != nil {
			return fmt.Errorf("compile %s of %s: %w", file, module, err)
		}
		return nil
	}
}
