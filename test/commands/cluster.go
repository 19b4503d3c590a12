// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControlKubeconfig returns a kubeconfig file for a test server, with the namespace shoot.
func ControlKubeconfig(t *testing.T, server string) string {
	t.Helper()

	return Write(t, "control.yaml", `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+server+`"}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: shoot}}]
users: [{name: u, user: {token: t0p-secret}}]
`)
}

// LeasePath is the path of the leases of the namespace shoot.
const LeasePath = "/apis/coordination.k8s.io/v1/namespaces/shoot/leases/"

// JustNow stands for the time of the response: a controller that runs keeps renewing its lease, and
// a slow test does not age it.
const JustNow = "JUST-NOW"

// Ago returns the time at the given age.
func Ago(age time.Duration) string { return time.Now().Add(-age).UTC().Format(metav1.RFC3339Micro) }

// lease returns a Lease with the given time of its renewal.
func lease(name, renewed string) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"namespace":"shoot"},
		"spec":{"holderIdentity":"pod-1","leaseDurationSeconds":15,"renewTime":%q}}`, name, renewed)
}

// Leased adds the leases of both controllers, with the given times of their renewals.
func (c Cluster) Leased(managerRenewed, controllerRenewed string) Cluster {
	c[LeasePath+"machine-controller-manager"] = lease("machine-controller-manager", managerRenewed)
	c[LeasePath+"machine-controller"] = lease("machine-controller", controllerRenewed)

	return c
}

// Provided returns the kubeconfig of a provider cluster on which the machine m is scheduled.
func Provided(t *testing.T) string {
	t.Helper()

	vm := strings.Replace(Failing(t, "Starting", "", ""), `"type":"Failure"`, `"type":"Other"`, 1)

	return Cluster{VMPath + "m": vm}.Provider(t)
}

// Cluster is an API server that returns these bodies by path, or by path and label selector, and 404
// for everything else.
type Cluster map[string]string

func (c Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")

	body, known := c[r.URL.Path+"?"+r.URL.Query().Get("labelSelector")]
	if !known {
		body, known = c[r.URL.Path]
	}

	if r.Method != http.MethodGet || !known {
		w.WriteHeader(http.StatusNotFound)

		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`
	}

	// The client detects truncation.
	_, _ = io.WriteString(w, strings.ReplaceAll(body, JustNow, time.Now().UTC().Format(metav1.RFC3339Micro)))
}

// Provider serves the cluster as a provider cluster, and returns its kubeconfig.
func (c Cluster) Provider(t *testing.T) string {
	t.Helper()

	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)

	return KubeconfigOf(server)
}

// Control serves the cluster as a control cluster, and returns the path of its kubeconfig.
func (c Cluster) Control(t *testing.T) string {
	t.Helper()

	server := httptest.NewServer(c)
	t.Cleanup(server.Close)

	return ControlKubeconfig(t, server.URL)
}

// The paths of the VirtualMachines of the namespace machines, and of MCM's objects of the namespace shoot.
const (
	VMPath  = "/apis/kubevirt.io/v1/namespaces/machines/virtualmachines/"
	MCMPath = "/apis/machine.sapcloud.io/v1alpha1/namespaces/shoot/"
)

// Failing returns a VirtualMachine m that KubeVirt has
// rejected for a long time, with the given texts.
func Failing(t *testing.T, status, reason, message string) string {
	t.Helper()

	vm, err := json.Marshal(map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{
			"name": "m", "namespace": "machines", "uid": "vm", "creationTimestamp": "2026-01-02T03:04:05Z",
			"labels": map[string]string{"mcm.gardener.cloud/cluster": "c", "mcm.gardener.cloud/role": "node"},
		},
		"status": map[string]any{"printableStatus": status, "conditions": []any{map[string]any{
			"type": "Failure", "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:05:05Z",
		}}},
	})
	require.NoError(t, err)

	return string(vm)
}

// ShootWith returns a control cluster with the Machine m, whose
// class and Secret refer to a provider cluster.
func ShootWith(provider string) Cluster {
	return Cluster{
		MCMPath + "machines/m": `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{"name":"m","namespace":"shoot","uid":"u"},
			"spec":{"class":{"kind":"MachineClass","name":"c"}},"status":{"currentStatus":{"phase":"Pending","lastUpdateTime":"2026-01-02T03:04:05Z"},
			"lastOperation":{"type":"Create","state":"Failed","errorCode":"ResourceExhausted","description":"as it was","lastUpdateTime":"2026-01-02T03:04:05Z"}}}`,
		MCMPath + "machineclasses/c": ShootClass,
		MCMPath + "machineclasses":   `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClassList","items":[` + ShootClass + `]}`,
		"/api/v1/namespaces/shoot/secrets/s": `{"apiVersion":"v1","kind":"Secret","data":{"userData":"dDBwLXNlY3JldA==",
			"kubeconfig":"` + base64.StdEncoding.EncodeToString([]byte(provider)) + `"}}`,
	}
}

// ShootClass is the MachineClass of ShootWith.
const ShootClass = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClass","metadata":{"name":"c","namespace":"shoot"},
	"provider":"kubevirt","secretRef":{"name":"s","namespace":"shoot"},
	"providerSpec":{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}}`

// RequireFit requires lines that a terminal shows unchanged.
func RequireFit(t *testing.T, out string) {
	t.Helper()

	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		// Commands and URLs are meant to be copied, so they stay whole.
		if whole := strings.TrimSpace(line); !strings.HasPrefix(whole, "kubectl ") && !strings.Contains(whole, "https://") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 120, line)
		}

		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
	}
}

// MachinesPath is the beginning of the paths of Machines, MachineClasses and MachineDeployments.
const MachinesPath = "/apis/machine.sapcloud.io/v1alpha1/namespaces/shoot/machine"

// ListOf returns a list of objects of machine-controller-manager.
func ListOf(kind string, items ...string) string {
	return `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"` + kind + `List","items":[` + strings.Join(items, ",") + `]}`
}
