// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// reporter is a script that writes a line of what the guest knows for each of its boots.
const reporter = `#!/bin/sh
addresses=$(ip -4 -oneline address show scope global | awk '{print $2 "=" $4}' | paste -s -d ,)
route=$(ip -4 route get 192.0.2.1 | sed -n 's/.* dev \([^ ]*\).*/\1/p')
echo "REPORT $(hostname) $(cut -d: -f1 /var/lib/cloud/instance/datasource) $(cat /var/lib/cloud/data/instance-id)" \
  "$(cat /sys/class/net/enp1s0/address) ${addresses:-none} ${route:-none} END" >> /var/lib/reports
cat /var/lib/reports > /dev/ttyS0
`

// perBoot is a file that cloud-init runs at each boot.
const perBoot = "/var/lib/cloud/scripts/per-boot/report"

// powerOff ends the guest when cloud-init has done its work. cloud-init runs scripts of the user data once.
const powerOff = "systemd-run --on-active=20s --timer-property=AccuracySec=1s systemctl poweroff\n"

// multipart is user data in the format of a MIME message, with a file and a script that runs it.
var multipart = "Content-Type: multipart/mixed; boundary=\"==part==\"\nMIME-Version: 1.0\n\n" +
	"--==part==\nContent-Type: text/cloud-config\nMIME-Version: 1.0\n\n" + file("/usr/local/sbin/report") +
	"\n--==part==\nContent-Type: text/x-shellscript\nMIME-Version: 1.0\n\n#!/bin/sh\nexec /usr/local/sbin/report\n\n--==part==--\n"

// shellScript is user data in the format of a script.
var shellScript = "#!/bin/sh\nset -eu\ncat > " + perBoot + " <<'EOF'\n" + reporter + "EOF\nchmod 755 " + perBoot + "\n" + perBoot + "\n" + powerOff

// archive is user data in cloud-init's own format of several parts, as Gardener's extension for Ubuntu writes it.
func archive(t *testing.T) string {
	t.Helper()

	parts, err := yaml.Marshal([]map[string]string{
		{"type": "text/cloud-config", "content": file(perBoot)}, {"type": "text/x-shellscript", "content": "#!/bin/sh\n" + powerOff},
	})
	require.NoError(t, err)

	return "#cloud-config-archive\n" + string(parts)
}

// file returns user data in the format of a cloud-config that writes the reporter.
func file(path string) string {
	return "#cloud-config\nwrite_files:\n  - path: " + path + "\n    permissions: '0755'\n    content: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(reporter), "\n", "\n      ") + "\n"
}

// TestUserData boots guests from all data sources and in all formats of user data, which do not join, but report to their console. They have
// their host names from KubeVirt's metadata.
func TestUserData(t *testing.T) {
	t.Parallel()

	// With the default binding, the guest has the address of its pod, and another MAC address at each boot.
	const (
		changing   = `{"networks":[{"pod":{}}]}`
		podAddress = `^enp1s0=10\.99\.\d+\.\d+/24$`
	)

	for name, test := range map[string]struct {
		reason    string
		fields    string
		userData  string
		source    string
		addresses string // a pattern
		boots     int
	}{
		"Multipart": {
			reason:    "the driver's network data configure both interfaces by DHCP",
			fields:    `{"networks":[{"pod":{},"masquerade":{}},{"name":"` + storageNetwork + `","mac":"Stable"}]}`,
			userData:  multipart,
			source:    "DataSourceNoCloud",
			addresses: `^enp1s0=10\.0\.2\.2/24,enp\d+s0=10\.98\.1\.\d+/24$`,
			boots:     1,
		},
		"Archive": {
			reason:    "the driver's network data name the interface",
			fields:    changing,
			userData:  archive(t),
			source:    "DataSourceNoCloud",
			addresses: podAddress,
			boots:     2,
		},
		"ConfigDrive": {
			reason:    "the documented network data name the interface",
			fields:    documentedNetwork(t, changing),
			userData:  shellScript,
			source:    "DataSourceConfigDrive",
			addresses: podAddress,
			boots:     2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newMachine(t, func(*testing.T, *harness.Shoot) string { return test.userData }, func(t *testing.T, s *harness.Shoot) []byte {
				t.Helper()
				createNetwork(t, s.ProviderNamespace, storageNetwork, tenantNetwork)

				return harness.MergeFields(t, guestSpec(t, s), test.fields)
			})
			t.Cleanup(func() { w.logConsole(t) })

			reports := w.awaitReports(t, test.boots)
			for _, report := range reports {
				require.Equal(t, w.machine.Name, report.name)
				require.Equal(t, test.source, report.source)
				require.Equal(t, reports[0].instance, report.instance, "cloud-init has run its part for new instances once")
				require.Regexp(t, test.addresses, report.addresses, test.reason)
				require.Equal(t, "enp1s0", report.route, "the default route is that of the first interface")
			}

			if test.source == "DataSourceConfigDrive" {
				require.Equal(t, string(w.instance(t).Spec.Domain.Firmware.UUID), reports[0].instance)
			}

			if test.boots > 1 {
				require.NotEqual(t, reports[0].mac, reports[1].mac, "the first interface has another address at each start")
			}

			w.remove(t)
		})
	}
}

// report is a line of the reporter.
type report struct{ name, source, instance, mac, addresses, route string }

var reportLine = regexp.MustCompile(`REPORT (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) END`)

// awaitReports waits for the reports of a number of boots on the console.
func (w *worker) awaitReports(t *testing.T, boots int) (reports []report) {
	t.Helper()

	harness.Within(t, bootLimit, fmt.Sprintf("the guest has reported %d boots", boots), func(ctx context.Context) (bool, error) {
		console, err := w.consoleOf(ctx, w.machine.Name)
		reports = nil

		for _, match := range reportLine.FindAllStringSubmatch(console, -1) {
			reports = append(reports, report{match[1], match[2], match[3], match[4], match[5], match[6]})
		}

		return len(reports) >= boots, err
	})
	t.Log(reports)

	return reports
}

// storageNetwork is the name of a network beside the pod network.
const storageNetwork = "storage"

// yamlBlock matches the content of a YAML block.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// documentedNetwork returns the fragment of a ProviderSpec from docs/images.md that configures the
// network of a guest with ConfigDrive, with more fields, as JSON.
func documentedNetwork(t *testing.T, fields string) string {
	t.Helper()

	page, err := os.ReadFile("../../../docs/images.md")
	require.NoError(t, err)

	section := regexp.MustCompile(`(?s)\n## The network after a restart\n(.*?)\n## `).FindSubmatch(page)
	require.NotNil(t, section)

	blocks := yamlBlock.FindAllSubmatch(section[1], -1)
	require.Len(t, blocks, 1)
	require.Contains(t, string(blocks[0][1]), "type: ConfigDrive")

	data, err := yaml.YAMLToJSONStrict(blocks[0][1])
	require.NoError(t, err)

	return string(harness.MergeFields(t, data, fields))
}
