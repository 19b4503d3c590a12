// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

func TestStepOf(t *testing.T) {
	t.Parallel()

	instance := func(phase kubevirtv1.VirtualMachineInstancePhase, node string, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *kubevirtv1.VirtualMachineInstance {
		return &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase:      phase,
			ActivePods: map[types.UID]string{"pod": node},
			Conditions: conditions,
		}}
	}
	unscheduled := kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled),
		Status: corev1.ConditionFalse,
	}

	failed := unscheduled
	failed.Reason = corev1.PodReasonSchedulerError

	tests := map[string]struct {
		reason   string
		instance *kubevirtv1.VirtualMachineInstance
		want     step
	}{
		"None":        {"the volumes are being created", nil, ""},
		"Pending":     {"a pod that only makes volumes bind", instance(kubevirtv1.Pending, "node"), ""},
		"Waits":       {"the pod waits for volumes that bind late", instance(kubevirtv1.Scheduling, ""), ""},
		"Unscheduled": {"the scheduler says why", instance(kubevirtv1.Scheduling, "", unscheduled), "pod"},
		"Conflict":    {"the scheduler tries again, and waits for the volumes", instance(kubevirtv1.Scheduling, "", failed), ""},
		"Starts":      {"the pod is on its node", instance(kubevirtv1.Scheduling, "node"), "pod"},
		"Failed":      {"the pod has to end", instance(kubevirtv1.Failed, "node"), "pod"},
		"Ended":       {"there is no pod any more", &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Failed}}, ""},
		"Scheduled":   {"virt-handler has it", instance(kubevirtv1.Scheduled, "node"), ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, stepOf(tc.instance), tc.reason)
		})
	}
}

// silent is a provider cluster that responds only to the first request for a machine's volumes.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/datavolumes") {
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Request:    r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1",
				"items":[{"metadata":{"name":"disk","namespace":"machines"},"spec":{"source":{"pvc":{"name":"image","namespace":"images"}}}}]}`)),
		}, nil
	}

	<-r.Context().Done()

	return nil, r.Context().Err()
}

func TestReadRelated_OneTimeLimit(t *testing.T) {
	t.Parallel()

	starting := &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
		Phase:      kubevirtv1.Scheduling,
		ActivePods: map[types.UID]string{"pod": "node"},
	}}

	for reason, instance := range map[string]*kubevirtv1.VirtualMachineInstance{"the volumes are being created": nil, "the pod starts": starting} {
		synctest.Test(t, func(t *testing.T) {
			c, err := providerapi.NewCache(providerapi.Options{
				QPS:           100,
				Burst:         200,
				WrapTransport: func(http.RoundTripper) http.RoundTripper { return silent{} },
			}).For(hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}))
			require.NoError(t, err)

			began := time.Now()
			seen := &evidence{Evidence: diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}, Instance: instance}}
			found := (&reader{clients: c}).readRelated(t.Context(), &spi.ObserveMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}, seen)
			require.Equal(t, evidenceTimeout, time.Since(began), reason)
			require.Equal(t, instance == nil, len(found.DataVolumes) == 1, "what was read in time counts")
		})
	}
}

// answers is a provider cluster that responds with these bodies, by the last element of the path.
// Other objects do not exist.
type answers struct {
	bodies map[string]string
	asked  []string // the names, those of lists of events as "events?OBJECT"
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	last := path.Base(r.URL.Path)
	asked := last

	if selected, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil && last == "events" {
		object, _ := selected.RequiresExactMatch("involvedObject.name")
		asked += "?" + object
	}

	a.asked = append(a.asked, asked)

	body, known := a.bodies[last]
	code := http.StatusOK

	if !known {
		code = http.StatusNotFound
		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}

	return &http.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Request:    r,
		Body:       io.NopCloser(strings.NewReader(body)),
	}, nil
}

// cloneBeside lists the DataVolumes of a machine whose first one waits for the machine's pod.
func cloneBeside(phase cdiv1beta1.DataVolumePhase) string {
	return `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[
		{"metadata":{"name":"m-data","namespace":"machines"},"spec":{"source":{"blank":{}}},"status":{"phase":"` + string(phase) + `"}},
		{"metadata":{"name":"m-root-disk","namespace":"machines"},"spec":{"source":{"pvc":{"name":"golden-1","namespace":"machines"}}},
			"status":{"phase":"PendingPopulation"}}]}`
}

// TestReadRelated_GoldenImageFirst reads the evidence of a machine that has a blank disk in addition
// to the root disk.
func TestReadRelated_GoldenImageFirst(t *testing.T) {
	t.Parallel()

	const image = `{"kind":"DataVolume","apiVersion":"cdi.kubevirt.io/v1beta1","metadata":{"name":"golden-1","namespace":"machines"},
		"status":{"phase":"Failed"}}`

	vm := &kubevirtv1.VirtualMachine{}
	vm.Name = "m"
	vm.Namespace = "machines"
	vm.Labels = map[string]string{v1alpha1.LabelGoldenImage: "golden-1"}

	for _, phase := range []cdiv1beta1.DataVolumePhase{cdiv1beta1.PendingPopulation, cdiv1beta1.WaitForFirstConsumer, cdiv1beta1.ImportInProgress} {
		for reason, bodies := range map[string]map[string]string{
			"the image has failed": {"datavolumes": cloneBeside(phase), "golden-1": image, "events": noEvents},
			"the image is gone":    {"datavolumes": cloneBeside(phase), "events": noEvents},
		} {
			cluster := &answers{bodies: bodies}
			c, err := providerapi.NewCache(providerapi.Options{
				QPS:           100,
				Burst:         200,
				WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster },
			}).For(hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}))
			require.NoError(t, err)

			seen := &evidence{Evidence: diagnose.Evidence{VirtualMachine: vm}}
			found := (&reader{clients: c}).readRelated(t.Context(), &spi.ObserveMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}, seen)

			if bodies["golden-1"] == "" {
				require.Equal(t, []string{"datavolumes", "golden-1", "events?m-root-disk", "m-root-disk"}, cluster.asked, reason)
				require.Equal(t, "golden-1", found.missing, reason)
			} else {
				require.Equal(t, []string{"datavolumes", "golden-1", "events?golden-1", "golden-1"}, cluster.asked, reason)
				require.Len(t, found.Images, 1, reason)
			}
		}
	}
}

// TestReadRelated_AfterSchedulerError reads the evidence of a launcher pod that was not placed because
// the scheduler itself failed.
func TestReadRelated_AfterSchedulerError(t *testing.T) {
	t.Parallel()

	const pods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"launcher","uid":"pod"}}]}`

	cluster := &answers{bodies: map[string]string{"pods": pods, "datavolumes": cloneBeside(cdiv1beta1.PendingPopulation), "events": noEvents}}
	c, err := providerapi.NewCache(providerapi.Options{
		QPS:           100,
		Burst:         200,
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster },
	}).For(hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}))
	require.NoError(t, err)

	seen := &evidence{Evidence: diagnose.Evidence{
		VirtualMachine: &kubevirtv1.VirtualMachine{},
		Instance: &kubevirtv1.VirtualMachineInstance{
			Status: kubevirtv1.VirtualMachineInstanceStatus{
				Phase:      kubevirtv1.Scheduling,
				ActivePods: map[types.UID]string{"pod": ""},
				Conditions: []kubevirtv1.VirtualMachineInstanceCondition{{
					Type:   kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled),
					Status: corev1.ConditionFalse,
					Reason: corev1.PodReasonSchedulerError,
				}},
			},
		},
	}}
	found := (&reader{clients: c}).readRelated(t.Context(), &spi.ObserveMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}, seen)

	require.Len(t, found.Pods, 1)
	require.Len(t, found.DataVolumes, 2)
	require.Equal(t, []string{"pods", "datavolumes"}, cluster.asked[:2])
	require.LessOrEqual(t, len(cluster.asked), 6, "requests")
}

const noEvents = `{"kind":"EventList","apiVersion":"v1","items":[]}`

func TestUnfinished(t *testing.T) {
	t.Parallel()

	volume := func(name string, phase cdiv1beta1.DataVolumePhase) cdiv1beta1.DataVolume {
		dv := cdiv1beta1.DataVolume{Status: cdiv1beta1.DataVolumeStatus{Phase: phase}}
		dv.Name = name
		dv.Namespace = "machines"

		return dv
	}
	cloned := func(dv cdiv1beta1.DataVolume) cdiv1beta1.DataVolume {
		dv.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "golden-1"}}

		return dv
	}

	waits := volume("waits", cdiv1beta1.WaitForFirstConsumer)
	pending := volume("pending", cdiv1beta1.PendingPopulation)
	works := volume("works", cdiv1beta1.ImportInProgress)
	done := volume("done", cdiv1beta1.Succeeded)

	tests := map[string]struct {
		reason  string
		volumes []cdiv1beta1.DataVolume
		want    string
	}{
		"None":     {"there is no volume", nil, ""},
		"Complete": {"all are complete", []cdiv1beta1.DataVolume{done, cloned(done)}, ""},
		"Clone":    {"the image comes first", []cdiv1beta1.DataVolume{waits, works, cloned(volume("clone", cdiv1beta1.PendingPopulation))}, "clone"},
		"Cloned":   {"the image has been cloned", []cdiv1beta1.DataVolume{waits, cloned(done), works}, "works"},
		"Works":    {"a volume that waits for the pod has not failed", []cdiv1beta1.DataVolume{waits, pending, works}, "works"},
		"Waits":    {"the first of those that wait", []cdiv1beta1.DataVolume{done, pending, waits}, "pending"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := unfinished(tc.volumes, "machines/golden-1")
			if tc.want == "" {
				require.Nil(t, got, tc.reason)

				return
			}

			require.Equal(t, tc.want, got.Name, tc.reason)
		})
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock})
	seenOf := func(name string) *evidence {
		return &evidence{Evidence: diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}}, key: machineKey{name: records.Key(name)}}
	}

	require.True(t, m.recall(seenOf("m"), time.Minute))
	require.False(t, m.recall(seenOf("m"), time.Minute), "it was just read")
	require.True(t, m.recall(seenOf("other"), time.Minute), "each machine has its own record")

	related := evidence{Evidence: diagnose.Evidence{DataVolumes: []cdiv1beta1.DataVolume{{}}}, missing: "claim"}
	read := seenOf("m")
	m.keep(read, related)
	require.Len(t, read.DataVolumes, 1)
	require.NotNil(t, read.VirtualMachine)

	recalled := seenOf("m")
	require.False(t, m.recall(recalled, time.Minute))
	require.Equal(t, read, recalled)
	require.Equal(t, clock.Now(), recalled.readAt)

	starting := seenOf("m")
	starting.Instance = &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
		Phase:      kubevirtv1.Scheduling,
		ActivePods: map[types.UID]string{"pod": "node"},
	}}
	require.False(t, m.recall(starting, time.Minute))
	require.Empty(t, starting.DataVolumes, "evidence of another step")
	require.True(t, starting.readAt.IsZero())

	clock.Step(time.Minute)
	require.True(t, m.recall(seenOf("m"), time.Minute))
}

// TestReport_Initialized has a slow machine that is scheduled: its evidence takes memory for nothing.
func TestReport_Initialized(t *testing.T) {
	t.Parallel()

	m := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(time.Now())})
	seen := &evidence{Evidence: diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}}, key: machineKey{name: "m", uid: "u"}}
	m.keep(seen, evidence{missing: "claim"})

	failure := &spi.Error{Kind: spi.ErrUnavailable, Reason: "NodeDown"}
	require.ErrorIs(t, m.report(&spi.ObserveMachineInput{}, seen, verdict{failure: failure}), failure)
	require.Equal(t, "NodeDown", m.reported(seen))
	m.peek(seen.key, func(r *record) { require.Equal(t, "claim", r.related.missing) })

	require.NoError(t, m.report(&spi.ObserveMachineInput{}, seen, verdict{initialized: true}))
	require.Empty(t, m.reported(seen))
	m.peek(seen.key, func(r *record) { require.Equal(t, record{uid: "u"}, *r) })
}

func TestKeep_Bounds(t *testing.T) {
	t.Parallel()

	m := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(time.Now())})
	keep := func(name string, size int) *evidence {
		seen := &evidence{Evidence: diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}}, key: machineKey{name: records.Key(name)}}
		m.keep(seen, evidence{missing: strings.Repeat("x", size)})

		return seen
	}

	require.Empty(t, keep("large", maxRelatedMemory).missing, "too much for one machine")

	m.records.Use("0", func(r *record) { r.reported = "QuotaExceeded" })

	const size = 400 << 10

	for i := range maxAllRelatedMemory/size + 1 {
		require.NotEmpty(t, keep(strconv.Itoa(i), size).missing)
	}

	m.records.Each(func(r *record) {
		require.Zero(t, r.memory, "too much for all machines")
		require.Empty(t, r.related.missing)
	})
	m.records.Peek("0", func(r *record) { require.Equal(t, "QuotaExceeded", r.reported) })
}
