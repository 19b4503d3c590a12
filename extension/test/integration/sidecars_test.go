// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// repeats is the reason of permissions for events.
const repeats = "counts repeated events: k8s.io/client-go/tools/record/event.go"

// volumeAccounts are the accounts in the shoot of the CSI driver and its sidecars, with the permissions that a run may
// not need and their reason. Whether a program lists or watches the first time depends on its version and on the
// API server's.
var volumeAccounts = map[string]map[string]string{
	"csi-provisioner": {
		"list persistentvolumes": lists, "list persistentvolumeclaims": lists, "list storageclasses.storage.k8s.io": lists,
		"list volumeattachments.storage.k8s.io": lists, "patch events": repeats,
	},
	"csi-attacher": {
		"list persistentvolumes": lists, "list csinodes.storage.k8s.io": lists, "list volumeattachments.storage.k8s.io": lists, "patch events": repeats,
	},
	"csi-resizer": {
		"list persistentvolumes": lists, "list persistentvolumeclaims": lists, "patch events": repeats,
	},
	"csi-snapshotter": {
		"list volumesnapshotclasses.snapshot.storage.k8s.io": lists, "list volumesnapshotcontents.snapshot.storage.k8s.io": lists, "patch events": repeats,
	},
	"csi-snapshot-controller": {
		"list persistentvolumes": lists, "list persistentvolumeclaims": lists, "patch events": repeats,
	},
	"csi-driver-controller": nil,
	"csi-driver-node":       nil,
}

// volumeAccountInProvider is the same for the account of the CSI driver in the provider cluster. Paths are in
// kubevirt/csi-driver.
var volumeAccountInProvider = map[string]string{
	"update virtualmachineinstances/removevolume.subresources.kubevirt.io": "detaches what the VirtualMachine has lost already: pkg/service/controller.go, removeVolumeFromVm",
	"list volumesnapshots.snapshot.storage.k8s.io":                         "ListSnapshots without an ID, which csi-snapshotter v8.6.0 does not call: pkg/service/controller.go",
}

// cloudControllerInShoot are the permissions of cloud-controller-manager in the shoot that a run may not need. In the lab,
// shoots share the cluster of their Nodes, so that the controller that removes Nodes does not run:
// TestCloudControllerManager runs it. Paths are in k8s.io/cloud-provider v0.36.3.
var cloudControllerInShoot = map[string]string{
	"list nodes": lists, "list services": lists, "list endpointslices.discovery.k8s.io": lists, "patch events": repeats,
	"list configmaps extension-apiserver-authentication": lists,
	"get nodes":          "taints a Node that is shut down: node/helpers/taints.go",
	"patch nodes":        "as above",
	"delete nodes":       "removes a Node without a machine: controllers/nodelifecycle/node_lifecycle_controller.go",
	"patch nodes/status": "changes addresses of a Node, which the lab's guests set: controllers/node/node_controller.go",
	"create tokenreviews.authentication.k8s.io":           "authenticates Prometheus",
	"create subjectaccessreviews.authorization.k8s.io":    "authorizes Prometheus",
	"get configmaps extension-apiserver-authentication":   "reads it by a watch in newer versions: k8s.io/apiserver/pkg/server/options/authentication.go",
	"watch configmaps extension-apiserver-authentication": "reads it at the start in older versions",
}

// cloudControllerInProvider is the same for its account in the provider cluster.
var cloudControllerInProvider = map[string]string{
	"get virtualmachines.kubevirt.io": "see cloudControllerInShoot, delete nodes",
	"watch pods":                      "begins a second after the first Service with the policy Local, which may be shorter",
}

// requireNeededPermissions compares the audit logs of the API servers with the Roles of cloud-controller-manager, the CSI
// driver and its sidecars: no request was denied, and each permission was used.
func requireNeededPermissions(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	for account, optional := range volumeAccounts {
		p, err := theSeed.ShootPermissions(t.Context(), account)
		require.NoError(t, err)
		requireNeeded(t, account, p, optional)
	}

	p, err := theSeed.ShootPermissions(t.Context(), "cloud-controller-manager")
	require.NoError(t, err)
	requireNeeded(t, "cloud-controller-manager", p, cloudControllerInShoot)

	for program, optional := range map[string]map[string]string{"csi-driver-controller": volumeAccountInProvider, "cloud-controller-manager": cloudControllerInProvider} {
		account := shoot.Namespace + "-" + program
		p, err := theSeed.ProviderPermissions(t.Context(), shoot.ProviderNamespace, account)
		require.NoError(t, err)
		requireNeeded(t, account+" in the provider cluster", p, optional)
	}
}

func requireNeeded(t *testing.T, account string, p *seed.Permissions, optional map[string]string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "permissions of %s: %d requests; %d permissions granted, %d used, %d may be unused; %d kinds of requests denied\n",
		account, p.Requests, len(p.Granted), len(p.Used), len(optional), len(p.Denied))

	for permission := range optional {
		require.Truef(t, p.Granted.Has(permission), "%s: %q is not granted: remove it from the table", account, permission)
	}

	unused := slices.DeleteFunc(p.Unused(), func(permission string) bool { return optional[permission] != "" })
	if len(unused)+len(p.Denied) > 0 {
		t.Errorf("%s: denied: %v; granted and never used: %s", account, p.Denied.UnsortedList(), strings.Join(unused, ", "))
	}
}
