// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"kubevirt.io/client-go/containerizeddataimporter/fake"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestObserve_ReplacesOnlyOwnImages tests failed DataVolumes with the name of an image.
func TestObserve_ReplacesOnlyOwnImages(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	image := func(change func(*cdiv1beta1.DataVolume)) *cdiv1beta1.DataVolume {
		dv := &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name:              "golden-1",
				Namespace:         "ns",
				CreationTimestamp: metav1.NewTime(began),
				Labels:            map[string]string{v1alpha1.TagCluster: "c", v1alpha1.LabelGoldenImage: "golden-1"},
				Annotations:       map[string]string{v1alpha1.AnnotationGoldenImageKey: "key"},
			},
			Status: cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Failed},
		}
		change(dv)

		return dv
	}
	own := image(func(*cdiv1beta1.DataVolume) {})

	tests := map[string]struct {
		reason  string
		have    *cdiv1beta1.DataVolume
		foreign string // what the error names
		want    []string
	}{
		"Own": {reason: "it failed long ago", have: own, want: []string{"delete golden image ns/golden-1"}},
		"Unlabelled": {
			reason:  "it is another object",
			have:    image(func(dv *cdiv1beta1.DataVolume) { dv.Labels = nil }),
			foreign: "label " + v1alpha1.TagCluster,
		},
		"OtherShoot": {
			reason:  "another shoot's",
			have:    image(func(dv *cdiv1beta1.DataVolume) { dv.Labels[v1alpha1.TagCluster] = "other" }),
			foreign: "label " + v1alpha1.TagCluster,
		},
		"OtherContent": {
			reason:  "the name is only a hash",
			have:    image(func(dv *cdiv1beta1.DataVolume) { dv.Annotations[v1alpha1.AnnotationGoldenImageKey] = "other" }),
			foreign: "annotation " + v1alpha1.AnnotationGoldenImageKey,
		},
		"Planted": {
			reason: "labels and annotation can be guessed",
			have: image(func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.Source = &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: "https://evil.example.com"}}
			}),
			foreign: "spec.source",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cdi := fake.NewSimpleClientset()
			k := NewManager(clocktesting.NewFakePassiveClock(began.Add(time.Hour)), period)
			at := &providerapi.Clients{Server: "s", Namespace: "ns", CDI: cdi}
			k.states.set(refOf(at, "golden-1"), ready, "another")

			err := k.Observe(t.Context(), at, tc.have, own)

			var asked []string

			for _, action := range cdi.Actions() {
				deleted, ok := action.(clienttesting.DeleteAction)
				require.True(t, ok)

				asked = append(asked, "delete golden image "+deleted.GetNamespace()+"/"+deleted.GetName())
			}

			require.Equal(t, tc.want, asked, tc.reason)
			require.Empty(t, k.states.state(refOf(at, "golden-1")), "nothing is known to be there")

			if tc.foreign == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorIs(t, err, spi.ErrForeign)
			require.ErrorContains(t, err, tc.foreign)
			require.ErrorContains(t, err, "ns/golden-1")
		})
	}
}

// TestAdopt_Foreign requires an error for a DataVolume that only has the name of the image.
func TestAdopt_Foreign(t *testing.T) {
	t.Parallel()

	want := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{
		Name:        "golden-1",
		Namespace:   "ns",
		Annotations: map[string]string{v1alpha1.AnnotationGoldenImageKey: "key"},
	}}
	have := want.DeepCopy()
	have.Annotations = nil
	have.Status.Phase = cdiv1beta1.Succeeded

	m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
	clients := &providerapi.Clients{Server: "s", Namespace: "ns", CDI: fake.NewSimpleClientset(have)}

	require.ErrorIs(t, m.adopt(t.Context(), clients, want), spi.ErrForeign, "its clones would have other content")
	require.Empty(t, m.states.state(refOf(clients, "golden-1")), "it is not ready")
}

// TestRetryRefused tests images whose claim exceeds a quota, and images that only look similar.
func TestRetryRefused(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	refused := func(change func(*cdiv1beta1.DataVolume)) *cdiv1beta1.DataVolume {
		dv := &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "golden-1", Namespace: "ns", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(began)},
			Status: cdiv1beta1.DataVolumeStatus{
				Phase: cdiv1beta1.Pending,
				Conditions: []cdiv1beta1.DataVolumeCondition{
					{Type: cdiv1beta1.DataVolumeReady, Status: corev1.ConditionFalse, Reason: "ErrExceededQuota"},
					{Type: cdiv1beta1.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "ErrExceededQuota"},
				},
			},
		}
		change(dv)

		return dv
	}

	tests := map[string]struct {
		change func(*cdiv1beta1.DataVolume)
		age    time.Duration
		want   bool
	}{
		"Refused":       {change: func(*cdiv1beta1.DataVolume) {}, age: retryAfter, want: true},
		"RefusedNow":    {change: func(*cdiv1beta1.DataVolume) {}, age: retryAfter - time.Second},
		"HasClaim":      {change: func(dv *cdiv1beta1.DataVolume) { dv.Status.ClaimName = "golden-1" }, age: time.Hour},
		"Importing":     {change: func(dv *cdiv1beta1.DataVolume) { dv.Status.Phase = cdiv1beta1.ImportInProgress }, age: time.Hour},
		"OtherReason":   {change: func(dv *cdiv1beta1.DataVolume) { dv.Status.Conditions[1].Reason = "NotFound" }, age: time.Hour},
		"ExceededByPod": {change: func(dv *cdiv1beta1.DataVolume) { dv.Status.Conditions[1].Type = cdiv1beta1.DataVolumeRunning }, age: time.Hour},
		"Terminating":   {change: func(dv *cdiv1beta1.DataVolume) { dv.DeletionTimestamp = &dv.CreationTimestamp }, age: time.Hour},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			have := refused(tc.change)
			cdi := fake.NewSimpleClientset(have)
			k := NewManager(clocktesting.NewFakePassiveClock(began.Add(tc.age)), period)
			at := &providerapi.Clients{Server: "s", Namespace: "ns", CDI: cdi}
			k.states.set(refOf(at, "golden-1"), importing, have.UID)

			require.NoError(t, k.RetryRefused(t.Context(), at, have))

			if !tc.want {
				require.Empty(t, cdi.Actions())
				require.Equal(t, importing, k.states.state(refOf(at, "golden-1")))

				return
			}

			require.Len(t, cdi.Actions(), 1)
			deleted, ok := cdi.Actions()[0].(clienttesting.DeleteActionImpl)
			require.True(t, ok)
			require.Equal(t, preconditionsOf("u", "7"), *deleted.DeleteOptions.Preconditions, "it is this DataVolume, unchanged")
			require.Empty(t, k.states.state(refOf(at, "golden-1")), "the next call creates it")
		})
	}
}
