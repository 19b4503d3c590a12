// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// readerAt returns a reader of a provider cluster.
func readerAt(t *testing.T, cluster http.RoundTripper) *reader {
	t.Helper()

	c, err := providerapi.NewCache(providerapi.Options{
		QPS:           100,
		Burst:         200,
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster },
	}).For(hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}))
	require.NoError(t, err)

	return &reader{clients: c}
}

// eventList returns a list with one event about a claim.
func eventList(reason string) string {
	return `{"kind":"EventList","apiVersion":"v1","items":[{"metadata":{"name":"e"},"reason":"` + reason + `",
		"involvedObject":{"kind":"PersistentVolumeClaim","name":"m-root-disk","uid":"u1"}}]}`
}

// TestReadVolume reads the evidence of a clone and of imports. kube-controller-manager drops events when it
// is busy, so the claim of a DataVolume may have none.
func TestReadVolume(t *testing.T) {
	t.Parallel()

	const (
		name             = "m-root-disk"
		claim            = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"m-root-disk","namespace":"machines","uid":"u1"}}`
		withoutPopulator = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"m-root-disk","namespace":"machines","uid":"u1",
			"annotations":{"cdi.kubevirt.io/storage.usePopulator":"false"}}}`
		copied = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"m-root-disk","namespace":"machines","uid":"u1",
			"annotations":{"cdi.kubevirt.io/cloneType":"copy"}}}`
		copiedDirectly = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"m-root-disk","namespace":"machines","uid":"u1",
			"annotations":{"cdi.kubevirt.io/cloneType":"copy","cdi.kubevirt.io/storage.usePopulator":"false"}}}`
		temporary                              = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"tmp-pvc-u1","namespace":"machines","uid":"u2"}}`
		prime                                  = `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"prime-u1","namespace":"machines"}}`
		ofVolume, ofTemporary, ofPrime         = "events?m-root-disk", "events?tmp-pvc-u1", "events?prime-u1"
		ofImporter, ofImporterWithoutPopulator = "events?importer-prime-u1", "events?importer-m-root-disk"
	)

	clone := &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image"}}
	waiting := cdiv1beta1.DataVolumeCondition{Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: "ContainerCreating"}

	for reason, tc := range map[string]struct {
		source     *cdiv1beta1.DataVolumeSource
		phase      cdiv1beta1.DataVolumePhase
		progress   cdiv1beta1.DataVolumeProgress
		conditions []cdiv1beta1.DataVolumeCondition
		bodies     map[string]string
		want       []string
		claims     int
		unread     bool
	}{
		"the claim has no event":     {source: clone, bodies: map[string]string{"events": noEvents, name: claim}, want: []string{ofVolume, name, ofTemporary}, claims: 1},
		"the claim cannot be read":   {source: clone, bodies: map[string]string{"events": eventList("x"), name: "{"}, want: []string{ofVolume, name, ofTemporary}, claims: 1, unread: true},
		"there is no claim any more": {source: clone, bodies: map[string]string{"events": eventList("x")}, want: []string{ofVolume, name}},
		"the copy waits": {
			source: clone, phase: cdiv1beta1.CloneInProgress, progress: "N/A",
			bodies: map[string]string{"events": noEvents, name: copied, "tmp-pvc-u1": temporary},
			want:   []string{ofVolume, name, ofTemporary, "tmp-pvc-u1", "events?cdi-upload-tmp-pvc-u1", "events?u2-source-pod"},
			claims: 1,
		},
		"the copy waits, without a CSI driver": {
			source: clone, phase: cdiv1beta1.CloneScheduled,
			bodies: map[string]string{"events": noEvents, name: copiedDirectly},
			want:   []string{ofVolume, name, "events?cdi-upload-m-root-disk", "events?u1-source-pod"},
			claims: 1,
		},
		"the copy waits, and its claim is gone": {
			source: clone, phase: cdiv1beta1.CloneInProgress,
			bodies: map[string]string{"events": noEvents, name: copied},
			want:   []string{ofVolume, name, ofTemporary, "tmp-pvc-u1"},
			claims: 1,
		},
		"the copy runs": {
			source: clone, phase: cdiv1beta1.CloneInProgress, progress: "1.00%",
			bodies: map[string]string{"events": noEvents, name: copied},
			want:   []string{ofVolume, name, ofTemporary},
			claims: 1,
		},
		"the importer waits": {
			conditions: []cdiv1beta1.DataVolumeCondition{waiting},
			bodies:     map[string]string{"events": noEvents, name: claim},
			want:       []string{ofVolume, name, ofPrime, ofImporter},
			claims:     1,
		},
		"the importer waits, without a CSI driver": {
			conditions: []cdiv1beta1.DataVolumeCondition{waiting},
			bodies:     map[string]string{"events": noEvents, name: withoutPopulator},
			want:       []string{ofVolume, name, ofImporterWithoutPopulator},
			claims:     1,
		},
		"the importer has failed": {
			bodies: map[string]string{"events": eventList("ErrImportFailed"), name: claim, "prime-u1": prime},
			want:   []string{ofVolume, name, ofPrime, "prime-u1"},
			claims: 2,
		},
	} {
		dv := &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{Source: tc.source}}
		dv.Name = name
		dv.Namespace = "machines"
		dv.Status.Phase = tc.phase
		dv.Status.Progress = tc.progress
		dv.Status.Conditions = tc.conditions

		cluster := &answers{bodies: tc.bodies}
		related := &diagnose.Evidence{}
		r := readerAt(t, cluster)
		r.readVolume(t.Context(), dv, related)
		require.Equal(t, tc.want, cluster.asked, reason)
		require.Len(t, related.Claims, tc.claims, reason)
		require.Equal(t, tc.unread, len(r.unread) > 0, reason)
	}
}

// TestReadRelated_GuestDoesNotRun reads the events of an instance that virt-handler has not started, and of
// one that runs.
func TestReadRelated_GuestDoesNotRun(t *testing.T) {
	t.Parallel()

	const pods = `{"kind":"PodList","apiVersion":"v1","items":[
		{"metadata":{"name":"launcher-1","uid":"a"},"status":{"phase":"Succeeded"}},{"metadata":{"name":"launcher-2","uid":"b"},"status":{"phase":"Running"}}]}`

	for phase, wants := range map[kubevirtv1.VirtualMachineInstancePhase]string{kubevirtv1.Scheduled: "events?", kubevirtv1.Running: "datavolumes"} {
		cluster := &answers{bodies: map[string]string{
			"pods": pods, "events": noEvents, "datavolumes": `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[]}`,
		}}
		seen := &evidence{Evidence: diagnose.Evidence{
			VirtualMachine: &kubevirtv1.VirtualMachine{},
			Instance: &kubevirtv1.VirtualMachineInstance{
				Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: phase, NodeName: "host", ActivePods: map[types.UID]string{"a": "other", "b": "host"}},
			},
		}}
		found := readerAt(t, cluster).readRelated(t.Context(), &spi.ObserveMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}, seen)

		require.Equal(t, []string{"pods", wants}, cluster.asked, phase)
		require.Len(t, found.Pods, 1, "a live migration has left the other launcher")
		require.Equal(t, "launcher-2", found.Pods[0].Name)
	}
}
