// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// change is a change of a Shoot, and the fields of the errors that it introduces.
type change struct {
	reason string
	change func(*gardencorev1beta1.Shoot)
	want   []string
}

// requireChanges validates changes of a Shoot.
func requireChanges(t *testing.T, shoot *gardencorev1beta1.Shoot, changes map[string]change) {
	t.Helper()

	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			changed := shoot.DeepCopy()
			tc.change(changed)

			err := (&shootValidator{garden: gardenWith(t, exampleProfile(t))}).Validate(t.Context(), changed, shoot.DeepCopy())
			requireFields(t, err, tc.want, tc.reason)
		})
	}
}

// infrastructure returns an InfrastructureConfig with networks.
func infrastructure(networks string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig", "networks": {` + networks + `}}`)}
}

// TestShootValidator_Networking requires the network of the nodes: without it, gardenlet fails with "shoot's
// node cidr is empty" (pkg/gardenlet/operation/shoot.ToNetworks).
func TestShootValidator_Networking(t *testing.T) {
	t.Parallel()

	const nodes, families = "spec.networking.nodes", "spec.networking.ipFamilies"

	tests := map[string]struct {
		reason     string
		networking *gardencorev1beta1.Networking
		networks   string
		want       []string
	}{
		"PodNetwork": {reason: "the extension does not know the pod network of the provider cluster", networking: &gardencorev1beta1.Networking{}, want: []string{nodes}},
		"None":       {reason: "no networking at all", want: []string{nodes}},
		"DHCP": {
			reason:     "a server in the network has the subnet",
			networking: &gardencorev1beta1.Networking{},
			want:       []string{nodes},
			networks:   `"tenantNetworks": [{"name": "a", "default": true, "config": "{\"type\": \"bridge\", \"ipam\": {\"type\": \"dhcp\"}}"}]`,
		},
		"Secondary": {
			reason:     "the network is not that of the nodes",
			networking: &gardencorev1beta1.Networking{},
			want:       []string{nodes},
			networks:   `"tenantNetworks": [{"name": "a", "config": "{\"type\": \"bridge\", \"ipam\": {\"subnet\": \"10.1.0.0/16\"}}"}]`,
		},
		"Subnet": {
			reason:     "the Infrastructure reports it to gardenlet",
			networking: &gardencorev1beta1.Networking{},
			networks:   `"tenantNetworks": [{"name": "a", "default": true, "config": "{\"type\": \"bridge\", \"ipam\": {\"subnet\": \"10.1.0.0/16\"}}"}]`,
		},
		"Given":      {reason: "the pod network", networking: &gardencorev1beta1.Networking{Nodes: ptr.To("10.1.0.0/16")}},
		"SingleIPv6": {reason: "IPv6 alone does not work", networking: &gardencorev1beta1.Networking{IPFamilies: []gardencorev1beta1.IPFamily{"IPv6"}}, want: []string{families}},
		"DualStack":  {reason: "IPv4 is one of the families", networking: &gardencorev1beta1.Networking{IPFamilies: []gardencorev1beta1.IPFamily{"IPv4", "IPv6"}, Nodes: ptr.To("10.1.0.0/16")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := exampleShoot(t)
			shoot.Spec.Networking = tc.networking
			shoot.Spec.Provider.InfrastructureConfig = infrastructure(tc.networks)
			validator := &shootValidator{garden: gardenWith(t, exampleProfile(t))}
			requireFields(t, validator.Validate(t.Context(), shoot, nil), tc.want, tc.reason)

			changed := shoot.DeepCopy()
			changed.Spec.Provider.Workers[0].Maximum++
			require.NoError(t, validator.Validate(t.Context(), changed, shoot), "a Shoot that was accepted before")
		})
	}
}

// TestShootValidator_InPlace refuses changes of pools whose machines are never replaced.
func TestShootValidator_InPlace(t *testing.T) {
	t.Parallel()

	shoot := exampleShoot(t)
	pool := &shoot.Spec.Provider.Workers[0]
	pool.Zones = []string{"europe-west1-b", "europe-west1-c"}
	pool.UpdateStrategy = ptr.To(gardencorev1beta1.AutoInPlaceUpdate)

	const worker = "spec.provider.workers[0]"

	in := func(f func(*gardencorev1beta1.Worker)) func(*gardencorev1beta1.Shoot) {
		return func(s *gardencorev1beta1.Shoot) { f(&s.Spec.Provider.Workers[0]) }
	}

	requireChanges(t, shoot, map[string]change{
		"Appended":  {"existing Nodes keep their zone", in(func(w *gardencorev1beta1.Worker) { w.Zones = append(w.Zones, "europe-west1-d") }), nil},
		"Removed":   {"the second class would be gone", in(func(w *gardencorev1beta1.Worker) { w.Zones = w.Zones[:1] }), []string{worker + ".zones"}},
		"Reordered": {"Nodes would get the label of another zone", in(func(w *gardencorev1beta1.Worker) { w.Zones = []string{"europe-west1-c", "europe-west1-b"} }), []string{worker + ".zones"}},
		"Prepended": {"as reordered", in(func(w *gardencorev1beta1.Worker) { w.Zones = append([]string{"europe-west1-d"}, w.Zones...) }), []string{worker + ".zones"}},
		"Manual": {
			"the other strategy in place", in(func(w *gardencorev1beta1.Worker) {
				w.UpdateStrategy, w.Zones = ptr.To(gardencorev1beta1.ManualInPlaceUpdate), w.Zones[:1]
			}), []string{worker + ".zones"},
		},
		"Config":      {"existing machines keep their settings", in(func(w *gardencorev1beta1.Worker) { w.ProviderConfig = edited(t, w.ProviderConfig, `"1Gi"`, `"2Gi"`) }), []string{worker + ".providerConfig"}},
		"NoConfig":    {"existing machines keep their settings", in(func(w *gardencorev1beta1.Worker) { w.ProviderConfig = nil }), []string{worker + ".providerConfig"}},
		"Spaces":      {"the text is not the content", in(func(w *gardencorev1beta1.Worker) { w.ProviderConfig = edited(t, w.ProviderConfig, `{`, `{ `) }), nil},
		"DataVolumes": {"existing machines keep their volumes", in(func(w *gardencorev1beta1.Worker) { w.DataVolumes[0].VolumeSize = "11Gi" }), []string{worker + ".dataVolumes"}},
		"Renamed":     {"another pool", in(func(w *gardencorev1beta1.Worker) { w.Name, w.Zones = "other", w.Zones[:1] }), nil},
		"Maximum":     {"not a property of machines", in(func(w *gardencorev1beta1.Worker) { w.Maximum++ }), nil},
	})

	rolling := shoot.DeepCopy()
	rolling.Spec.Provider.Workers[0].UpdateStrategy = ptr.To(gardencorev1beta1.AutoRollingUpdate)
	requireChanges(t, rolling, map[string]change{
		"Rolling": {"machines are replaced", in(func(w *gardencorev1beta1.Worker) {
			w.Zones = w.Zones[:1]
			w.DataVolumes = nil
			w.ProviderConfig = nil
		}), nil},
	})
}

// TestShootValidator_ContainerDiskInUse keeps a container disk usable for a pool that has it when the
// CloudProfile no longer offers it.
func TestShootValidator_ContainerDiskInUse(t *testing.T) {
	t.Parallel()

	with := exampleProfile(t)
	without := exampleProfile(t)
	shoot := exampleShoot(t)
	with.Spec.ProviderConfig = edited(t, with.Spec.ProviderConfig,
		`"sourceURL":"https://cloud-images.ubuntu.com/bionic/current/bionic-server-cloudimg-amd64.img"`, `"containerDisk":{"image":"registry.example.com/a:b"}`)
	without.Spec.ProviderConfig = edited(t, without.Spec.ProviderConfig, `"18.4.20210415"`, `"18.4.99999999"`)

	pool := &shoot.Spec.Provider.Workers[0]
	pool.Volume = nil
	pool.DataVolumes = nil
	pool.ProviderConfig = nil
	require.NoError(t, (&shootValidator{garden: gardenWith(t, with)}).Validate(t.Context(), shoot, nil))

	validator := &shootValidator{garden: gardenWith(t, without)}
	changed := shoot.DeepCopy()
	changed.Spec.Provider.Workers[0].Maximum++
	require.NoError(t, validator.Validate(t.Context(), changed, shoot))

	changed.Spec.Provider.Workers = append(changed.Spec.Provider.Workers, *changed.Spec.Provider.Workers[0].DeepCopy())
	changed.Spec.Provider.Workers[1].Name = "second"
	require.NoError(t, validator.Validate(t.Context(), changed, shoot), "another pool can have it, too")

	mixed := shoot.DeepCopy()
	mixed.Spec.Provider.Workers = append([]gardencorev1beta1.Worker{*exampleShoot(t).Spec.Provider.Workers[0].DeepCopy()}, mixed.Spec.Provider.Workers...)
	mixed.Spec.Provider.Workers[0].Name = "with-volume"
	changed = mixed.DeepCopy()
	changed.Spec.Provider.Workers[1].Maximum++
	require.NoError(t, validator.Validate(t.Context(), changed, mixed), "a pool with a needless root volume has the same image")
}

// TestShootValidator_Limits bounds the objects of a Shoot. What an accepted Shoot has can be reduced.
func TestShootValidator_Limits(t *testing.T) {
	t.Parallel()

	const (
		workers, networks = "spec.provider.workers", "spec.provider.infrastructureConfig.networks"
		features          = 11000 // 180 KiB
	)

	config := `"cpu":{"features":[` + repeated(features, `{"name":"k%d"}`) + `]}`
	long := shootWith(t, 10, 3, 1, "")
	for i := range long.Spec.Provider.Workers {
		long.Spec.Provider.Workers[i].Labels = map[string]string{"a": strings.Repeat("a", 256<<10)}
	}

	tests := map[string]struct {
		reason string
		shoot  *gardencorev1beta1.Shoot
		remedy string
		want   []string
	}{
		"Most":         {"as many networks and pools as Shoots can have", shootWith(t, 333, 3, 16, ""), "", nil},
		"Networks":     {"a machine has an interface in each", shootWith(t, 1, 1, 17, ""), "remove networks", []string{networks}},
		"Pools":        {"a class for each pool and zone", shootWith(t, 334, 3, 1, ""), "use fewer pools or zones", []string{workers}},
		"Zones":        {"a class for each zone", shootWith(t, 1, 1001, 1, ""), "use fewer pools or zones", []string{workers}},
		"Large":        {"a providerConfig in each class", shootWith(t, 8, 3, 1, config), "shorten providerConfig", []string{workers}},
		"Labels":       {"labels in each MachineDeployment", long, "labels", []string{workers}},
		"NotSoLarge":   {"long, but few", shootWith(t, 2, 3, 1, config), "", nil},
		"InvalidZones": {"each zone is validated", withZones(t, "europe-west1-b", "a b", ""), "topology label", []string{workers + "[0].zones[1]", workers + "[0].zones[2]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			validator := &shootValidator{garden: gardenWith(t, exampleProfile(t))}
			err := validator.Validate(t.Context(), tc.shoot, nil)
			requireFields(t, err, tc.want, tc.reason)

			if tc.remedy != "" {
				require.ErrorContains(t, err, tc.remedy)
			}

			changed := tc.shoot.DeepCopy()
			changed.Spec.Provider.Workers[0].Maximum++
			require.NoError(t, validator.Validate(t.Context(), changed, tc.shoot), "a Shoot that was accepted before")
		})
	}
}

func withZones(t *testing.T, zones ...string) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := exampleShoot(t)
	shoot.Spec.Provider.Workers[0].Zones = zones

	return shoot
}

// TestShootValidator_Reduced accepts updates that reduce what exceeds a limit.
func TestShootValidator_Reduced(t *testing.T) {
	t.Parallel()

	validator := &shootValidator{garden: gardenWith(t, exampleProfile(t))}
	require.NoError(t, validator.Validate(t.Context(), shootWith(t, 1, 1, 18, ""), shootWith(t, 1, 1, 19, "")))
	require.NoError(t, validator.Validate(t.Context(), shootWith(t, 400, 3, 1, ""), shootWith(t, 401, 3, 1, "")))
}

// TestShootValidator_NetworkCount accepts no more networks for a Shoot that has too many already, and validates the
// networks that it has.
func TestShootValidator_NetworkCount(t *testing.T) {
	t.Parallel()

	const networks = "spec.provider.infrastructureConfig.networks"

	with := func(count int, more string) func(*gardencorev1beta1.Shoot) {
		return func(s *gardencorev1beta1.Shoot) {
			s.Spec.Provider.InfrastructureConfig = infrastructure(`"tenantNetworks": [` + repeated(count, `{"name":"n%d","config":"{\"type\":\"a\"}"}`) + more + `]`)
		}
	}

	requireChanges(t, shootWith(t, 1, 1, 18, ""), map[string]change{
		"More":     {"another interface of each machine", with(19, ""), []string{networks}},
		"Same":     {"the machines run", with(18, ""), nil},
		"Fewer":    {"towards the limit", with(17, ""), nil},
		"Config":   {"it is no CNI configuration", with(17, `,{"name":"other","config":"{}"}`), []string{networks + ".tenantNetworks[17].config"}},
		"Accepted": {"as for all Shoots", with(16, ""), nil},
	})
	requireChanges(t, shootWith(t, 1, 1, 16, ""), map[string]change{"First": {"too many", with(17, ""), []string{networks}}})
}

// TestShootValidator_ContextEnds requires the validation to end with its context.
func TestShootValidator_ContextEnds(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	c := newValidationContext(shootWith(t, 300, 3, 1, repeated(10, `"k%d":0`)), &exampleProfile(t).Spec)
	require.Empty(t, c.validate(ctx), "no pool is validated")

	err := (&shootValidator{garden: gardenWith(t, exampleProfile(t))}).Validate(ctx, c.Shoot, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestShootValidator_Linear counts the allocations of a validation: twice as many entries of a list take
// about twice as many.
func TestShootValidator_Linear(t *testing.T) { //nolint:paralleltest // The allocations of parallel tests would count.
	const few, factor = 200, 2.5

	for name, of := range map[string]func(n int) *gardencorev1beta1.Shoot{
		"Pools": func(n int) *gardencorev1beta1.Shoot { return shootWith(t, n, 1, 1, "") },
		"Zones": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, n, 1, `"cpu":{"features":[`+repeated(100, `{"name":"k%d"}`)+`]}`)
		},
		"Features": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, 3, 1, `"cpu":{"features":[`+repeated(n, `{"name":"k%d"}`)+`]}`)
		},
		"InvalidFeatures": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, 3, 1, `"cpu":{"features":[`+repeated(n, `{"name":"k %d"}`)+`]}`)
		},
		"Tolerations": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, 3, 1, `"virtualMachineTemplate":{"spec":{"template":{"spec":{"tolerations":[`+repeated(n, `{"key":"k%d","operator":"Exists"}`)+`]}}}}`)
		},
		"Labels": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, 3, 1, `"virtualMachineTemplate":{"spec":{"template":{"metadata":{"labels":{`+repeated(n, `"k%d":"v"`)+`}}}}}`)
		},
		"Disks": func(n int) *gardencorev1beta1.Shoot {
			return shootWith(t, 1, 3, 1, `"devices":{"disks":[`+repeated(n, `{"name":"v%d","disk":{}}`)+`]}`)
		},
		"Volumes": func(n int) *gardencorev1beta1.Shoot { return withVolumes(t, n) },
	} {
		cost := func(n int) float64 {
			validator := &shootValidator{garden: gardenWith(t, exampleProfile(t))}
			shoot := of(n)

			return testing.AllocsPerRun(1, func() { _ = validator.Validate(t.Context(), shoot, nil) })
		}

		require.LessOrEqual(t, cost(2*few), factor*cost(few), name)
	}
}
