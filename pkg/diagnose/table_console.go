// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// consoleSign is a failure within a guest that its serial console shows.
type consoleSign struct {
	reason string
	// line matches a line with the sign, in lower case. If it has groups, only these are shown, and must match
	// nothing that a secret could be.
	line *regexp.Regexp
	// over, if set, matches a line of the same boot that shows that the failure is over, or none.
	over *regexp.Regexp
	// transient is set if guests that join have the sign, too, for a short time.
	transient bool
	// meaning is the failure in words, and remedy the action to take.
	meaning, remedy string
}

// joining are machines whose guests run, and do not join. Only diagnose reads consoles.
var joining = append([]symptom{{
	// virt-handler (pkg/virt-handler/vm.go), about each of the instances that KubeVirt starts one after the other.
	reason:  "GuestCrashing",
	kind:    spi.ErrPrecondition,
	grace:   retry,
	from:    []origin{instanceEvent},
	reasons: []string{"Stopped"},
	texts:   []string{"crashed"},
	remedy:  "check that the image is suitable for the machine: architecture, firmware, memory",
}}, symptomsOf(consoleSigns)...)

func symptomsOf(signs []consoleSign) []symptom {
	symptoms := make([]symptom, len(signs))
	for i, s := range signs {
		symptoms[i] = symptom{
			reason:  s.reason,
			kind:    spi.ErrPrecondition,
			grace:   retry,
			from:    []origin{guestConsole},
			reasons: []string{s.reason},
			remedy:  s.remedy,
		}
	}

	return symptoms
}

// consoleSigns are in the order in which a guest boots, except that specific signs come before those of their
// consequences. The comments name the programs that print the lines.
var consoleSigns = []consoleSign{
	{
		// EDK II (MdeModulePkg/Universal/BdsDxe), SeaBIOS (src/boot.c), GRUB.
		reason:  "GuestNotBootable",
		line:    regexp.MustCompile(`no bootable (?:device|option or device was found)|not a bootable disk|^grub rescue>|^error: no such (?:partition|device)`),
		meaning: "the firmware finds no operating system",
		remedy:  "use an image with a boot loader for the machine's firmware (BIOS or EFI) and architecture",
	},
	{
		// The kernel (init/do_mounts.c), initramfs-tools (scripts/local), dracut (modules.d/99base).
		reason: "GuestRootNotFound",
		line: regexp.MustCompile(`unable to mount root fs|cannot open root device|gave up waiting for root |(alert!) +\S+ (does not exist)|` +
			`dracut-initqueue timeout|(warning): /dev/\S+ (does not exist)`),
		over:    regexp.MustCompile(`switching root|reached target .*(initrd-switch-root|switch root)|welcome to `),
		meaning: "the kernel does not find the guest's root file system",
		remedy:  "build the image with virtio drivers in its initramfs, and name the root file system by its label or UUID",
	},
	{
		// The kernel (kernel/panic.c).
		reason:  "GuestKernelPanic",
		line:    regexp.MustCompile(`kernel panic - not syncing`),
		meaning: "the guest's kernel has panicked",
		remedy:  "use another version of the image; if the line is about memory, give the machine more",
	},
	{
		// The kernel (block/blk-core.c, fs/buffer.c, fs/ext4, fs/xfs).
		reason:  "GuestDiskFailed",
		line:    regexp.MustCompile(`i/o error, dev (?:vd|sd)|buffer i/o error on dev (?:vd|sd)|ext4-fs error|remounting filesystem read-only|(xfs) \([^)]*\): .*(corruption|i/o error)`),
		meaning: "a disk of the guest fails",
		remedy:  "repair the storage of the machine's volumes on the provider cluster, and delete the Machine, so that it is replaced",
	},
	{
		// The C library (ENOSPC), through any program.
		reason:  "GuestDiskFull",
		line:    regexp.MustCompile(`no space left on device`),
		meaning: "a disk of the guest is full",
		remedy:  "use a larger root volume, and an image whose file system grows with it",
	},
	{
		// The kernel (mm/oom_kill.c).
		reason:  "GuestOutOfMemory",
		line:    regexp.MustCompile(`out of memory: kill|invoked oom-killer`),
		meaning: "the guest has too little memory",
		remedy:  "give the machine more memory",
	},
	{
		// The kernel and the shell (ENOEXEC).
		reason:  "GuestWrongArchitecture",
		line:    regexp.MustCompile(`exec format error`),
		meaning: "the guest runs a program for another processor",
		remedy:  "use an image, and images of containers, for the machine's architecture",
	},
	{
		// systemd-networkd, NetworkManager, ifupdown and wicked, through systemd; dhclient; cloud-init (netinfo.py).
		reason: "GuestWithoutAddress",
		line: regexp.MustCompile(`(failed to start) .*(wait for network to be configured|network manager wait online|raise network interfaces|wicked managed network interfaces)|` +
			`no dhcpoffers received|ci-info: \| +e\w+ +\| +(?:true|false) +\| +\. `),
		over:    regexp.MustCompile(`ci-info: \| +e\w+ +\| +true +\| +(\d+\.\d+\.|2[0-9a-f]{3}:|f[cd][0-9a-f]{2}:)`),
		meaning: "the guest has got no address",
		remedy:  "check that a DHCP server answers in the machine's network, and that cloudInit.networkData and the image name the interface correctly",
	},
	{
		// cloud-init (cc_final_message.py, sources/__init__.py).
		reason:  "GuestWithoutUserData",
		line:    regexp.MustCompile(`used fallback datasource|datasource datasourcenone|did not find any data ?source`),
		meaning: "cloud-init has found no user data",
		remedy:  "set cloudInit.type to one that the image reads: NoCloud or ConfigDrive",
	},
	{
		// cloud-init (handlers, config/modules.py) and systemd; Ignition (internal/main.go).
		reason: "GuestUserDataInvalid",
		line: regexp.MustCompile(`unhandled non-multipart|failed loading yaml blob|failed at merging in cloud config|invalid cloud-config|` +
			`ignition failed: |(failed to start) .*(ignition[ -]\(?(?:fetch|disks|files|mount))`),
		meaning: "the guest cannot use its user data",
		remedy:  "correct the user data: #cloud-config or a script for cloud-init, JSON for Ignition",
	},
	{
		// The resolvers of glibc, apt, curl and Go.
		reason: "GuestCannotResolveNames",
		line: regexp.MustCompile(`temporary failure (?:in name resolution|resolving)|could not resolve host|name or service not known|` +
			`(dial tcp: lookup) .*(no such host|i/o timeout|server misbehaving|connection refused|try again)`),
		transient: true,
		meaning:   "the guest cannot resolve names",
		remedy:    "check the DNS servers that the guest gets by DHCP, or from dnsConfig, and that NetworkPolicies allow it to reach them",
	},
	{
		// Go (crypto/x509) and OpenSSL.
		reason:    "GuestClockWrong",
		line:      regexp.MustCompile(`certificate has expired or is not yet valid|certificate is not yet valid|certificate is not valid yet`),
		transient: true,
		meaning:   "the guest's clock, or the certificate of the server, is wrong",
		remedy:    "compare the times in the line: correct the clock of the provider node and the guest's NTP servers, or renew the certificate",
	},
	{
		reason:    "GuestDistrustsServer",
		line:      regexp.MustCompile(`x509: certificate (?:signed by unknown authority|is valid for)|certificate verify failed|ssl certificate problem`),
		transient: true,
		meaning:   "the guest does not trust a server's certificate",
		remedy:    "check what is between the guest and the server in the line, such as a proxy, and the CA certificates in the user data and in the image",
	},
	{
		// containerd (remotes/docker), its client ctr, and kubelet (pkg/kubelet/images).
		reason: "GuestCannotPullImage",
		line: regexp.MustCompile(`failed to pull (?:and unpack )?image|failed to resolve (?:reference|image)|failed to do request: (?:head|get) |\bctr: |errimagepull|` +
			`toomanyrequests: |pull access denied`),
		// Gardener's node-init script, once it has an image.
		over:    regexp.MustCompile(`> copy \S+ binary to host`),
		meaning: "the guest cannot pull an image",
		remedy:  "check that the guest reaches the registry, and that the image, the credentials and the registry mirrors in the user data are correct",
	},
	{
		// kubelet (pkg/kubelet/certificate/bootstrap), gardener-node-agent and kubeadm, with the API server's words.
		reason: "GuestTokenRefused",
		line: regexp.MustCompile(`(certificate signing request|failed requesting and storing kubeconfig|failed to run kubelet|bootstrap).*\b(unauthorized)\b|` +
			`could not find a jws signature|(user "system:(?:anonymous|bootstrap):?)\w*(" cannot)`),
		meaning: "the API server of the shoot refuses the guest's bootstrap token",
		remedy: "the token expires with the machine's creation timeout: delete the Machine, so that it is replaced, and raise the timeout if the guest boots slowly; " +
			"tokens of machines that were created together may have the same ID",
	},
	{
		// kubelet (pkg/kubelet/kubelet_node_status.go), with the words of the admission plugin NodeRestriction.
		reason:  "GuestNodeRefused",
		line:    regexp.MustCompile(`unable to register node with|(nodes?) \\?"[^"]+" (is forbidden)|is not allowed to modify node`),
		meaning: "the API server of the shoot refuses the guest's Node",
		remedy:  "let the guest take its host name, which is the Machine's name, as the name of its Node",
	},
	{
		// gardener-node-agent (pkg/nodeagent/bootstrap), kubeadm, and Go's network library.
		reason: "GuestCannotReachServer",
		line: regexp.MustCompile(`api server (?:connectivity test failed|unreachable)|couldn't validate the identity of the api server|` +
			`(dial tcp) \S+: (connect: (?:no route to host|connection refused|network is unreachable)|i/o timeout)`),
		transient: true,
		meaning:   "the guest cannot reach a server, such as the API server of the shoot",
		remedy:    "check the route from the machine's network to the server in the line, and the NetworkPolicies of the machines' namespace",
	},
	{
		// cloud-init (config/cc_scripts_user.py, config/modules.py) and systemd.
		reason: "GuestUserDataFailed",
		line: regexp.MustCompile(`cc_(?:scripts_\w+|runcmd|bootcmd|write_files|package_update_upgrade_install)\.py\[(?:warning|error)\]|failed to run module scripts|` +
			`(running module (?:scripts|runcmd|bootcmd|write|package))\S* .*(failed)|(failed to start) .*(execute cloud user/final scripts|cloud-final\.service)`),
		meaning: "a script or a file of the user data fails",
		remedy:  "check the lines before this one on the console (kubectl logs POD -c guest-console-log), and correct the user data",
	},
	{
		// systemd, and kubelet (pkg/kubelet/cri).
		reason:  "GuestRuntimeFailed",
		line:    regexp.MustCompile(`(failed to start) .*(containerd|container runtime)|containerd\.service: failed with result|validate (?:service connection|cri v1 runtime api)`),
		meaning: "the guest's container runtime does not start",
		remedy:  "check containerd and its configuration in the image and in the user data",
	},
	{
		// kubelet (cmd/kubelet/app) and systemd.
		reason:  "GuestKubeletFailed",
		line:    regexp.MustCompile(`failed to run kubelet|failed to load kubelet config|(failed to start) .*(kubelet)|kubelet\.service: failed with result`),
		meaning: "the guest's kubelet does not start",
		remedy:  "check kubelet and its configuration in the image and in the user data",
	},
	{
		// systemd and dracut.
		reason:  "GuestInEmergencyMode",
		line:    regexp.MustCompile(`(?:entering|you are in) (?:emergency|rescue) mode|dracut emergency shell`),
		meaning: "the guest waits for an administrator, since a file system or a unit that it needs has failed",
		remedy:  "check the lines with FAILED on the console (kubectl logs POD -c guest-console-log), and correct the image or the volumes",
	},
	{
		// The kernel (kernel/watchdog.c, kernel/rcu).
		reason:  "GuestStalled",
		line:    regexp.MustCompile(`soft lockup - cpu#|rcu_[a-z]+ (?:self-)?detected|blocked for more than \d+ seconds`),
		meaning: "processors of the guest stand still",
		remedy:  "check the load of the provider node and of its storage; if the node is at fault, delete the Machine, so that it is replaced",
	},
}
