// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// BenchmarkShootValidator_Validate prints the CPU time for one Shoot, from the example to the largest
// manifests that an API server accepts. extension/docs/operations/usage-as-operator.md has the result.
//
//	go test ./pkg/admission/validator -run '^$' -bench ShootValidator -benchtime 1x
func BenchmarkShootValidator_Validate(b *testing.B) {
	for _, tc := range largeShoots(b) {
		raw, err := json.Marshal(tc.shoot)
		require.NoError(b, err)

		b.Run(fmt.Sprintf("%s/%dKiB", tc.name, len(raw)>>10), func(b *testing.B) {
			validator := &shootValidator{garden: gardenWith(b, exampleProfile(b))}
			start := cpuTime(b)

			for b.Loop() {
				_ = validator.Validate(b.Context(), tc.shoot, nil)
			}

			b.ReportMetric(float64((cpuTime(b)-start).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()

	usage := syscall.Rusage{}
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// largeShoot is a Shoot with many entries of one kind.
type largeShoot struct {
	name  string
	shoot *gardencorev1beta1.Shoot
}

// largeShoots returns Shoots of 3, 45, 98 and 241 KiB with pools in three zones and networks, and Shoots of
// about 1 MiB, each with as many entries of another list as fit.
func largeShoots(t testing.TB) []largeShoot {
	t.Helper()

	shoots := []largeShoot{
		{"Networks", shootWith(t, 10, 3, 10, "")},
		{"Networks", shootWith(t, 10, 3, 1000, "")},
		{"Networks", shootWith(t, 50, 3, 2000, "")},
		{"Networks", shootWith(t, 100, 3, 5000, "")},
		{"Networks", shootWith(t, 1000, 3, 18000, "")},
		{"Pools", shootWith(t, 3800, 3, 1, "")},
		{"Zones", shootWith(t, 10, 7000, 1, "")},
		{"PoolsAndFeatures", shootWith(t, 333, 3, 1, `"cpu":{"features":[`+repeated(190, `{"name":"k%d"}`)+`]}`)},
		{"ZonesAndFeatures", shootWith(t, 1, 1000, 1, `"cpu":{"features":[`+repeated(60000, `{"name":"k%d"}`)+`]}`)},
		{"InvalidFields", shootWith(t, 333, 3, 1, repeated(270, `"k%d":0`))},
	}

	for name, config := range map[string]string{
		"Tolerations": `"virtualMachineTemplate":{"spec":{"template":{"spec":{"tolerations":[` + repeated(25000, `{"key":"k%d","operator":"Exists"}`) + `]}}}}`,
		"Labels":      `"virtualMachineTemplate":{"spec":{"template":{"metadata":{"labels":{` + repeated(80000, `"k%d":"v"`) + `}}}}}`,
		"Features":    `"cpu":{"features":[` + repeated(60000, `{"name":"k%d"}`) + `]}`,
		"Nameservers": `"dnsConfig":{"nameservers":[` + repeated(80000, `"10.0.%d"`) + `]}`,
		"Disks":       `"devices":{"disks":[` + repeated(35000, `{"name":"v%d","disk":{}}`) + `]}`,
	} {
		shoots = append(shoots, largeShoot{name, shootWith(t, 1, 3, 1, config)})
	}

	return append(shoots, largeShoot{"Volumes", withVolumes(t, 8000)})
}

// withVolumes returns a Shoot with data volumes, each with the settings of its disk.
func withVolumes(t testing.TB, count int) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := shootWith(t, 1, 3, 1, `"devices":{"disks":[`+repeated(count, `{"name":"v%d","disk":{}}`)+`]}`)
	pool := &shoot.Spec.Provider.Workers[0]

	for i := range count {
		pool.DataVolumes = append(pool.DataVolumes, gardencorev1beta1.DataVolume{Name: fmt.Sprintf("v%d", i), Type: ptr.To("default"), VolumeSize: "1Gi"})
	}

	return shoot
}

// shootWith returns the Shoot of the example with other pools, zones, tenant networks and fields of the
// WorkerConfig.
func shootWith(t testing.TB, pools, zones, networks int, config string) *gardencorev1beta1.Shoot {
	t.Helper()

	const header = `{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":`

	shoot := exampleShoot(t)
	pool := shoot.Spec.Provider.Workers[0]
	pool.DataVolumes = nil
	pool.ProviderConfig = nil
	pool.Zones = nil

	for i := range zones {
		pool.Zones = append(pool.Zones, fmt.Sprintf("europe-west1-%d", i))
	}

	if config != "" {
		pool.ProviderConfig = &runtime.RawExtension{Raw: []byte(header + `"WorkerConfig",` + config + `}`)}
	}

	shoot.Spec.Provider.Workers = nil
	for i := range pools {
		added := pool.DeepCopy()
		added.Name = fmt.Sprintf("p%d", i)
		shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, *added)
	}

	shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(header + `"InfrastructureConfig","networks":{"tenantNetworks":[` +
		repeated(networks, `{"name":"n%d","config":"{\"type\":\"a\"}"}`) + `]}}`)}

	return shoot
}

// repeated returns a list with a format that has the index of the entry.
func repeated(count int, format string) string {
	entries := make([]string, count)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}

	return strings.Join(entries, ",")
}
