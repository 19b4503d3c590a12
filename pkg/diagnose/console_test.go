// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// printed returns a machine whose guest has been running for ten minutes, and has printed lines one second apart,
// beginning nine minutes ago.
func printed(lines ...string) *diagnose.Evidence {
	e := onNode(kubevirtv1.Running, 10*time.Minute)
	e.Console = &diagnose.Console{Pod: spi.ObjectName{Kind: "Pod", Namespace: "ns", Name: "virt-launcher-m-x"}}

	var log strings.Builder

	for i, line := range lines {
		fmt.Fprintf(&log, "%s %s\n", now.Add(-9*time.Minute+time.Duration(i)*time.Second).Format(time.RFC3339Nano), line)
	}

	e.Console.Log = log.String()

	return e
}

// printing returns a machine whose guest has printed lines, and still prints them.
func printing(lines ...string) *diagnose.Evidence {
	e := printed(lines...)
	for _, line := range lines {
		e.Console.Log += now.Format(time.RFC3339Nano) + " " + line + "\n"
	}

	return e
}

// consoles are lines of real guests, by the cause that they show. The comments name the reports that they are from.
var consoles = map[string][]string{
	"GuestNotBootable": {"BdsDxe: failed to load Boot0001 \"UEFI Misc Device\" from PciRoot(0x0): Not Found", "BdsDxe: No bootable option or device was found."},
	// kubevirt#9775, learn.microsoft.com's page on dracut and initramfs-tools.
	"GuestRootNotFound": {
		"Gave up waiting for root file system device.  Common problems:", "ALERT!  UUID=3caf26b5-4d08-43e0-8634-7573269c4f70 does not exist.  Dropping to a shell!",
	},
	"GuestRootNotFound, dracut": {"[  201.935612] dracut-initqueue[455]: Warning: dracut-initqueue timeout - starting timeout scripts"},
	"GuestRootNotFound, panic": {
		"[    0.937149] VFS: Cannot open root device \"(null)\" or unknown-block(0,0): error -6",
		"[    0.939112] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
	},
	"GuestKernelPanic": {"[    3.1] ---[ end Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100 ]---"},
	// KubeVirt's user guide on PausedIOError, and the kernel's texts.
	"GuestDiskFailed":           {"[  412.870110] blk_update_request: I/O error, dev vda, sector 2099208 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 0"},
	"GuestDiskFailed, readonly": {"[  412.9] EXT4-fs (vda1): Remounting filesystem read-only"},
	"GuestDiskFull":             {"[   41.2] cloud-init[812]: tar: usr/bin/kubelet: Cannot write: No space left on device", "[FAILED] Failed to start kubelet.service"},
	"GuestOutOfMemory":          {"[  132.812] Out of memory: Killed process 1023 (kubelet) total-vm:1914364kB, anon-rss:60028kB"},
	"GuestWrongArchitecture":    {"[   22.1] cloud-init[731]: /opt/bin/kubelet: cannot execute binary file: Exec format error"},
	// kubevirt#13376.
	"GuestWithoutAddress": {
		"[FAILED] Failed to start Wait for Network to be Configured.",
		"[  170.697629] cloud-init[547]: ci-info: | Device |   Up  |  Address  |    Mask   | Scope |     Hw-Address    |",
		"[  170.704977] cloud-init[547]: ci-info: | enp1s0 | False |     .     |     .     |   .   | 82:e4:15:49:ea:7a |",
	},
	// openSUSE: cockpit-project/bots#5954.
	"GuestWithoutAddress, SUSE":     {"[    5.5] cloud-init[630]: ci-info: |  eth0  | True |     .     |     .     |   .   | 52:54:00:12:34:56 |"},
	"GuestWithoutAddress, dhclient": {"No DHCPOFFERS received.", "No working leases in persistent database - sleeping."},
	"GuestWithoutUserData":          {"[   35.379008] cloud-init[2565]: 2020-06-26 11:10:44,359 - cc_final_message.py[WARNING]: Used fallback datasource"},
	"GuestUserDataInvalid":          {"2025-06-26 07:15:05,709 - handlers[WARNING]: Unhandled non-multipart (text/x-not-multipart) userdata: 'b'# Use bash '...'"},
	// flatcar/Flatcar#2001.
	"GuestUserDataInvalid, Flatcar": {"CRITICAL : Ignition failed: failed to create files: failed to create files", "Entering emergency mode. Exit the shell to continue."},
	"GuestCannotResolveNames":       {"Err:1 http://archive.ubuntu.com/ubuntu jammy InRelease", "  Temporary failure resolving 'archive.ubuntu.com'"},
	// containerd#4231.
	"GuestCannotResolveNames, pull": {
		`ctr: failed to resolve reference "r.example.com/node-agent:1": failed to do request: Head "https://r.example.com/v2/node-agent/manifests/1": dial tcp: lookup r.example.com on 10.0.0.5:53: no such host`,
	},
	// ironicbadger/ocp4#23.
	"GuestClockWrong":      {"x509: certificate has expired or is not yet valid: current time 2021-05-14T00:00:21+08:00 is before 2021-05-14T05:45:12Z"},
	"GuestDistrustsServer": {`kubelet[812]: E1127 Unable to register node with API server err="Post \"https://10.0.0.1/api/v1/nodes\": tls: failed to verify certificate: x509: certificate signed by unknown authority"`},
	"GuestCannotPullImage": {`ctr: failed to do request: Head "https://r.example.com/v2/node-agent/manifests/1": dial tcp 10.1.2.3:443: i/o timeout`},
	// kubernetes/kubeadm#809.
	"GuestTokenRefused":        {"vm1 kubelet[17678]: F0514 12:15:33 server.go:233] failed to run Kubelet: cannot create certificate signing request: Unauthorized", "[FAILED] Failed to start kubelet.service."},
	"GuestTokenRefused, RBAC":  {`failed to run Kubelet: cannot create certificate signing request: certificatesigningrequests.certificates.k8s.io is forbidden: User "system:bootstrap:lemy40" cannot create certificatesigningrequests`},
	"GuestTokenRefused, agent": {"gardener-node-agent[900]: Error: failed requesting and storing kubeconfig: unable to create kubernetes client: Unauthorized"},
	"GuestNodeRefused":         {`kubelet[900]: E1127 "Unable to register node with API server" err="nodes \"m\" is forbidden: node \"other\" is not allowed to modify node \"m\"" node="m"`},
	// gardener's pkg/nodeagent/bootstrap.
	"GuestCannotReachServer":     {"WARNING: API server connectivity test failed: API server unreachable at https://api.example.com: Get \"https://api.example.com/version\": dial tcp 10.2.3.4:443: connect: no route to host"},
	"GuestRuntimeFailed":         {"[FAILED] Failed to start containerd.service - containerd container runtime."},
	"GuestKubeletFailed":         {`kubelet[900]: E1127 "command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`},
	"GuestUserDataFailed":        {"2021-10-27 01:28:57,707 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud/instance/scripts)"},
	"GuestUserDataFailed, units": {"[FAILED] Failed to start Execute cloud user/final scripts."},
	"GuestInEmergencyMode":       {"You are in emergency mode. After logging in, type \"journalctl -xb\" to view", "Press Enter for maintenance"},
	// kubevirt#9539.
	"GuestStalled": {"[  338.747039] watchdog: BUG: soft lockup - CPU#13 stuck for 22s! [systemd-udevd:248]"},
}

// healthy is what the console of a Debian guest that joins shows, with cloud-init's complaint about a locale.
var healthy = []string{
	"SeaBIOS (version rel-1.16.2-0-gea1b7a073390-prebuilt.qemu.org)", "", "Booting from Hard Disk...",
	"[    0.000000] Linux version 6.1.0-30-cloud-amd64 (debian-kernel@lists.debian.org)",
	"Welcome to \x1b[1mDebian GNU/Linux 12 (bookworm)\x1b[0m!",
	"[\x1b[0;32m  OK  \x1b[0m] Finished \x1b[0;1;39msystemd-networkd-wait-online.service\x1b[0m - Wait for Network to be Configured.",
	"[    8.123456] cloud-init[412]: ci-info: | enp1s0 |  True |  10.244.1.7  | 255.255.255.0 | global | 52:54:00:12:34:56 |",
	"[    8.123456] cloud-init[412]: ci-info: |  enp2s0  | True |     .     |     .     |   .   | 52:54:00:12:34:57 |",
	"[    8.5] chronyd[501]: Could not resolve host: ntp.example.com: Temporary failure in name resolution",
	"[    8.7] x509: certificate is not yet valid: dial tcp 10.0.0.1:443: connect: connection refused",
	"[    9.1] cloud-init[500]: 2026-11-27 - cc_locale.py[WARNING]: Failed to run module locale",
	"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mkubelet.service\x1b[0m - kubelet: The Kubernetes Node Agent.",
	"Debian GNU/Linux 12 worker ttyS0", "", "worker login: ",
}

func TestEvidence_ConsoleOfHealthyGuest(t *testing.T) {
	t.Parallel()

	e := printed(healthy...)
	require.Nil(t, e.Cause(now, grace))

	signs := e.Signs(now)
	require.Len(t, signs, 1)
	require.Equal(t, "the guest printed the last of the 13 lines that were read", signs[0].Message)
	require.Equal(t, now.Add(-9*time.Minute+time.Duration(len(healthy)-1)*time.Second), signs[0].Since)
	require.Equal(t, "virt-launcher-m-x", signs[0].Object.Name)
}

// TestEvidence_ConsoleBoots tests which boots count: the last one with a sign.
func TestEvidence_ConsoleBoots(t *testing.T) {
	t.Parallel()

	const (
		kernel  = "[    0.000000] Linux version 6.1.0-30-cloud-amd64"
		panics  = "[    1.0] Kernel panic - not syncing: Attempted to kill init!"
		refused = "failed to run Kubelet: cannot create certificate signing request: Unauthorized"
		pull    = `ctr: failed to do request: Head "https://r.example.com/": EOF`
	)

	tests := map[string]struct {
		reason string
		lines  []string
		want   string
	}{
		"Rebooting": {"the present boot has not come so far yet", []string{kernel, panics, kernel, "[    0.1] x86/fpu"}, "GuestKernelPanic"},
		"Now":       {"the present boot has another failure", []string{kernel, panics, kernel, refused}, "GuestTokenRefused"},
		"Over":      {"the script has pulled the image", []string{kernel, pull, "> Copy gardener-node-agent binary to host (/opt/bin) and make it executable"}, ""},
		"Coloured":  {"systemd colours the word", []string{"[\x1b[0;1;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mcontainerd.service\x1b[0m."}, "GuestRuntimeFailed"},
		"Spinner":   {"a line that is written again and again", []string{"[  *** ] A start job is running\r\x1b[K[FAILED]\tFailed to start containerd.service."}, "GuestRuntimeFailed"},
		"Words": {
			"a guest cannot pretend to be the scheduler", []string{"I/O error, dev vda forbidden: exceeded quota failed calling webhook violates podsecurity"}, "GuestDiskFailed",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := printed(tc.lines...).Cause(now, grace)
			if tc.want == "" {
				require.Nil(t, got, tc.reason)

				return
			}

			require.NotNil(t, got, tc.reason)
			require.Equal(t, tc.want, got.Err.Reason, tc.reason)
		})
	}
}

// TestEvidence_ConsoleTimes has a failure that is repeated: it began with its first line, and its last one is shown.
func TestEvidence_ConsoleTimes(t *testing.T) {
	t.Parallel()

	e := printed("[    0.000000] Linux version 6.1", "ctr: first", "x", "ctr: last", "y")
	got := e.Cause(now, grace)
	require.Equal(t, now.Add(-9*time.Minute+time.Second), got.Since)
	require.Equal(t, "the guest cannot pull an image; its console shows: ctr:", got.Err.Message)
	require.Equal(t, got.Since.Add(grace.Retry), got.ReportableAt)

	// The guest boots again and again, and fails in the same way since its second boot.
	const kernel, panics = "[    0.000000] Linux version 6.1", "Kernel panic - not syncing: Attempted to kill init!"

	got = printed(kernel, panics, kernel, "ctr: x", kernel, panics, kernel, "y", kernel, panics, kernel, panics, kernel).Cause(now, grace)
	require.Equal(t, "GuestKernelPanic", got.Err.Reason)
	require.Equal(t, now.Add(-9*time.Minute+9*time.Second), got.Since)
}

func TestConsole_Silent(t *testing.T) {
	t.Parallel()

	require.False(t, (*diagnose.Console)(nil).Silent(), "it was not read")
	require.True(t, (&diagnose.Console{}).Silent())
	require.True(t, (&diagnose.Console{Log: "2026-11-27T00:00:00Z \x1b[2J\r\n"}).Silent())
	require.False(t, printed("x").Console.Silent())
}

// canaries have the forms of passwords, tokens and keys.
var canaries = []string{"hUnter-2", "abcdef.0123456789abcdef", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl", "admin:correct-horse", "dXNlcjpwYXNz/x+y==", "6f1d3c5a-0000-4000-8000-00805f9b34fb"}

// TestEvidence_ConsoleWithoutSecrets has secrets before, after, and instead of, each word of a line with a sign. Those
// are not shown, whatever their form is.
func TestEvidence_ConsoleWithoutSecrets(t *testing.T) {
	t.Parallel()

	for name, lines := range consoles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, line := range append(lines, lines[0]+": dial tcp 10.0.0.1:443: Unauthorized") {
				words := strings.Split(line, " ")

				for i := range words {
					canary := canaries[i%len(canaries)]
					requireHidden(t, canary, strings.Join(slices.Concat(words[:i], []string{canary}, words[i:], []string{canary}), " "))
					requireHidden(t, canary, strings.Join(slices.Concat(words[:i], []string{canary}, words[i+1:]), " "))
				}
			}
		})
	}
}

func requireHidden(t *testing.T, canary, line string) {
	t.Helper()

	for _, sign := range printing(line).Signs(now) {
		require.NotContains(t, sign.Message, canary, line)
	}
}

// TestEvidence_ConsoleExcerpt tests what is shown of a line.
func TestEvidence_ConsoleExcerpt(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		`[   41.2] cloud-init[812]: tar: usr/bin/kubelet: Cannot write: No space left on device`:                                                "cloud-init[812] … No space left on device",
		`[  412.87] blk_update_request: I/O error, dev vda, sector 2099208`:                                                                     "I/O error, dev vda",
		`ALERT!  UUID=3caf26b5-4d08-43e0-8634-7573269c4f70 does not exist.`:                                                                     "ALERT!  UUID=3caf26b5-4d08-43e0-8634-7573269c4f70 does not exist",
		`[FAILED] Failed to start containerd.service - containerd container runtime.`:                                                           "Failed to start containerd.service … container runtime",
		`ctr: failed to resolve reference "r.example.com/node-agent:1": failed to do request: Head "https://r.example.com/v2/node-agent?sig=a"`: "ctr: … r.example.com/node-agent:1 … https://r.example.com",
		`ctr: x: Head "https://r.example.com:5000/v2/": dial tcp: lookup r.example.com on 10.0.0.5:53: no such host`:                            "https://r.example.com:5000 … dial tcp: lookup r.example.com … no such host",
		`ctr: Get "https://admin:hunter2@r.example.com/v2/": EOF`:                                                                               "ctr: … EOF",
		`ctr: Get "https://admin:1234 5@r.example.com/v2/": EOF`:                                                                                "ctr: … EOF",
		`x509: certificate is not yet valid: current time 2021-05-14T00:00:21+08:00 is before 2021-05-14T05:45:12Z`:                             "certificate is not yet valid: current time 2021-05-14T00:00:21+08:00 is before 2021-05-14T05:45:12Z",
		`failed to run Kubelet: cannot create certificate signing request with hunter2: Unauthorized`:                                           "failed to run Kubelet … Unauthorized",
		`Kernel panic - not syncing: password is hunter2`:                                                                                       "Kernel panic - not syncing",
		`İİ No space left on device`: "No space left on device",
	} {
		cause := printing(line).Cause(now, grace)
		require.NotNil(t, cause, line)

		_, shown, _ := strings.Cut(cause.Err.Message, "; its console shows: ")
		require.Equal(t, want, shown)

		e := printing(line)
		e.Console.ShowLines = true
		require.Contains(t, e.Cause(now, grace).Err.Message, "; its console shows: "+line[:10], "the whole line is shown on request")
		require.Contains(t, fmt.Sprint(e.Signs(now)), "the last line is: "+line[:10])
	}
}

// TestEvidence_ConsoleTransient tests failures that guests have until their network and their clock are ready.
func TestEvidence_ConsoleTransient(t *testing.T) {
	t.Parallel()

	const (
		resolve = "chronyd[412]: Could not resolve host: ntp.example.com: Name or service not known"
		kubelet = "[FAILED] Failed to start kubelet.service."
		script  = "cc_scripts_user.py[WARNING]: Failed to run module scripts-user"
	)

	tests := map[string]struct {
		reason string
		lines  map[time.Duration]string
		want   string
	}{
		"Over":      {"it was not repeated", map[time.Duration]string{time.Hour: resolve}, ""},
		"Repeated":  {"it lasts", map[time.Duration]string{time.Hour: resolve, time.Minute: resolve}, "GuestCannotResolveNames"},
		"Other":     {"another failure came later", map[time.Duration]string{time.Hour: resolve, 59 * time.Minute: kubelet}, "GuestKubeletFailed"},
		"Followed":  {"the script failed because of it", map[time.Duration]string{time.Hour: resolve, time.Hour - time.Second: script}, "GuestCannotResolveNames"},
		"Script":    {"kubelet is not configured", map[time.Duration]string{time.Hour: script, time.Hour - time.Second: kubelet}, "GuestUserDataFailed"},
		"Permanent": {"a full disk does not become empty", map[time.Duration]string{time.Hour: "no space left on device"}, "GuestDiskFull"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := printed()
			for _, ago := range slices.Backward(slices.Sorted(maps.Keys(tc.lines))) {
				e.Console.Log += now.Add(-ago).Format(time.RFC3339) + " " + tc.lines[ago] + "\n"
			}

			cause := e.Cause(now, grace)
			if tc.want == "" {
				require.Nil(t, cause, tc.reason)

				return
			}

			require.NotNil(t, cause, tc.reason)
			require.Equal(t, tc.want, cause.Err.Reason, tc.reason)
		})
	}
}

// TestEvidence_ConsoleEnd has long logs: the beginning and the end are not of the same boot, unless nothing shows it.
func TestEvidence_ConsoleEnd(t *testing.T) {
	t.Parallel()

	const (
		kernel = "[    0.000000] Linux version 6.1.0-30-cloud-amd64"
		full   = "no space left on device"
		pull   = "ctr: EOF"
		pulled = "> Copy gardener-node-agent binary to host"
	)

	for name, tc := range map[string]struct {
		reason, begin, end, want string
	}{
		"End":    {"the last boot counts", full, pull, "GuestCannotPullImage"},
		"Begin":  {"the end shows no failure", pull, "x", "GuestCannotPullImage"},
		"Over":   {"the end shows that it is over", pull, pulled, ""},
		"Reboot": {"another boot pulled the image", pull, kernel + "\n2026-11-27T00:00:00Z " + pulled, "GuestCannotPullImage"},
	} {
		e := printed(tc.begin)
		e.Console.End = printed(tc.end).Console.Log
		cause := e.Cause(now, grace)

		if tc.want == "" {
			require.Nil(t, cause, tc.reason)

			continue
		}

		require.NotNil(t, cause, "%s: %s", name, tc.reason)
		require.Equal(t, tc.want, cause.Err.Reason, tc.reason)
	}
}

func FuzzEvidence_Console(f *testing.F) {
	for _, lines := range consoles {
		f.Add(strings.Join(lines, "\n"))
	}

	f.Add("\x1b[2J\x1b]0;title\x07\u202e\xff\x00no space left on device")
	f.Add(strings.Repeat("a", 3000))

	f.Fuzz(func(t *testing.T, log string) {
		e := printed(strings.Split(log, "\n")...)
		e.Cause(now, grace)

		for _, s := range e.Signs(now) {
			require.LessOrEqual(t, len(s.Message), 500)
			require.False(t, strings.ContainsFunc(s.Message, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", s.Message)
		}
	})
}
