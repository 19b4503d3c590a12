// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// terminating is a provider cluster with a VirtualMachine that is being deleted, and its instance. It
// records what is deleted.
type terminating struct {
	vm, instance string
	deleted      []string
}

func (d *terminating) RoundTrip(r *http.Request) (*http.Response, error) {
	bodies := map[string]string{}

	switch {
	case r.Method == http.MethodDelete:
		d.deleted = append(d.deleted, r.URL.Path)
		bodies["m"] = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	case strings.Contains(r.URL.Path, "/virtualmachineinstances/") && d.instance != "":
		bodies["m"] = d.instance
	case strings.Contains(r.URL.Path, "/virtualmachines/"):
		bodies["m"] = d.vm
	case strings.HasSuffix(r.URL.Path, "/pods"):
		bodies["pods"] = `{"kind":"PodList","apiVersion":"v1","items":[]}`
	}

	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}

	return (&answers{bodies: bodies}).RoundTrip(r)
}

// finalized returns an object that is being deleted, unless it is not, with finalizers.
func finalized(kind, finalizers, deleted, status string) string {
	if deleted != "" {
		deleted = `"deletionTimestamp":"2026-01-02T03:04:05Z",`
	}

	return `{"kind":"` + kind + `","apiVersion":"kubevirt.io/v1","metadata":{"name":"m","namespace":"machines","uid":"u",` + deleted +
		`"labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},"finalizers":[` + finalizers + `]},"status":{` + status + `}}`
}

// TestBlocker has a row for each reason why a machine still exists.
func TestBlocker(t *testing.T) {
	t.Parallel()

	const (
		own     = `"kubevirt.io/virtualMachineControllerFinalize"`
		running = `"phase":"Running","nodeName":"host"`
	)

	tests := map[string]struct {
		vm, instance      string
		description, want string
	}{
		"Orphaned": {
			finalized("VirtualMachine", own+`,"orphan"`, "yes", ""), finalized("VirtualMachineInstance", "", "", running),
			"the VirtualMachine has finalizers kubevirt.io/virtualMachineControllerFinalize, orphan, and its VirtualMachineInstance is Running",
			"delete the VirtualMachineInstance, and check that kube-controller-manager of the provider cluster runs, whose garbage collector removes the finalizer orphan",
		},
		"Terminating": {
			finalized("VirtualMachine", own, "yes", ""), finalized("VirtualMachineInstance", "", "yes", running),
			`the VirtualMachineInstance is Running on provider node "host"`, "check that node",
		},
		"ForeignOnInstance": {
			finalized("VirtualMachine", own, "yes", ""), finalized("VirtualMachineInstance", `"example.com/backup"`, "yes", `"phase":"Succeeded","nodeName":"host"`),
			"the VirtualMachineInstance is Succeeded, with finalizers example.com/backup", "removes the finalizer example.com/backup",
		},
		"ForeignOnMachine": {
			finalized("VirtualMachine", `"example.com/backup"`, "yes", ""), "",
			"the VirtualMachine has finalizers example.com/backup", "repair the component that removes the finalizer example.com/backup",
		},
		"Foreground": {
			finalized("VirtualMachine", own+`,"foregroundDeletion"`, "yes", ""), "",
			"the VirtualMachine has finalizers kubevirt.io/virtualMachineControllerFinalize, foregroundDeletion",
			"garbage collector removes the finalizer foregroundDeletion, and which of the dependents (DataVolumes, pods) still exist",
		},
		"ForegroundAndForeign": {
			finalized("VirtualMachine", `"foregroundDeletion","example.com/backup"`, "yes", ""), "",
			"foregroundDeletion, example.com/backup", "repair the component that removes the finalizer example.com/backup, or remove the finalizer",
		},
		"NoneOnInstance": {
			finalized("VirtualMachine", own, "yes", ""), finalized("VirtualMachineInstance", "", "yes", `"phase":"Succeeded"`),
			"the VirtualMachineInstance is Succeeded, with no finalizers", "check that virt-controller runs",
		},
		"KubeVirt": {
			finalized("VirtualMachine", own, "yes", ""), "",
			"the VirtualMachine has finalizers kubevirt.io/virtualMachineControllerFinalize", "check that virt-controller runs",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := readerAt(t, &terminating{vm: tc.vm, instance: tc.instance}).blocker(t.Context(), "m", time.Now())
			require.Contains(t, got.description, tc.description)
			require.Contains(t, got.remedy, tc.want)
		})
	}
}

// TestDeleteLeftInstance deletes the instance that a deletion with orphan propagation leaves.
func TestDeleteLeftInstance(t *testing.T) {
	t.Parallel()

	in := &spi.DeleteMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}

	for finalizer, want := range map[string]int{`"orphan"`: 1, `"example.com/backup"`: 0} {
		cluster := &terminating{vm: finalized("VirtualMachine", finalizer, "yes", ""), instance: finalized("VirtualMachineInstance", "", "", "")}
		c := readerAt(t, cluster).clients

		vm, err := c.VirtualMachines().Get(t.Context(), "m")
		require.NoError(t, err)
		require.NoError(t, deleteLeftInstance(t.Context(), c, in, vm))
		require.Len(t, cluster.deleted, want, finalizer)

		cluster.deleted = nil
		in.Identity.Cluster = "other"
		require.NoError(t, deleteLeftInstance(t.Context(), c, in, vm))
		require.Empty(t, cluster.deleted, "the instance belongs to another shoot")

		in.Identity.Cluster = "c"
	}
}
