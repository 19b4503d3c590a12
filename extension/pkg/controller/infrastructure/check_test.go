// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gardener/gardener/extensions/pkg/util"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// providerState is a provider cluster, and what its API server refuses.
type providerState struct {
	objects []client.Object
	// denied are the resources for which access reviews are denied.
	denied map[string]bool
	// incomplete is set if reviews of rules are.
	incomplete bool
	// rules is the error of reviews of rules.
	rules error
	// reviews counts the reviews of permissions.
	reviews int
	// lists is the error of lists of KubeVirt's and CDI's objects.
	lists error
}

func healthy() *providerState {
	return &providerState{
		denied: map[string]bool{},
		objects: []client.Object{
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyRegion: "europe-west1", corev1.LabelTopologyZone: "europe-west1-c"}}},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		},
	}
}

func (p *providerState) cluster() *providercluster.Cluster {
	c := fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(p.objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, core := list.(*corev1.NodeList); p.lists != nil && !core {
				return p.lists
			}

			return c.List(ctx, list, options...)
		},
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			p.review(object)

			if _, rules := object.(*authorizationv1.SelfSubjectRulesReview); rules {
				return p.rules
			}

			return nil
		},
	}).Build()

	return &providercluster.Cluster{Client: c, Namespace: namespace}
}

// shootWithPool is a shoot with one worker pool.
func shootWithPool(t *testing.T, config *api.InfrastructureConfig) *landscape {
	t.Helper()

	l := newLandscape(t, config)
	l.cluster.CloudProfile.Spec = gardencorev1beta1.CloudProfileSpec{
		MachineTypes: []gardencorev1beta1.MachineType{{Name: "standard-1", CPU: resource.MustParse("1"), Memory: resource.MustParse("4Gi")}},
		VolumeTypes:  []gardencorev1beta1.VolumeType{{Name: "default", Class: "default"}, {Name: "fast", Class: "nvme"}},
	}
	l.cluster.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{
		Name:    "cpu-worker",
		Machine: gardencorev1beta1.Machine{Type: "standard-1"},
		Minimum: 3,
		Maximum: 5,
		Volume:  &gardencorev1beta1.Volume{Type: ptr.To("default")},
		Zones:   []string{"europe-west1-c"},
	}}

	return l
}

func TestCheck(t *testing.T) {
	t.Parallel()

	const pool = "spec.provider.workers[0]"

	notFound := apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{}, "", "", 0, true)

	tests := map[string]struct {
		config *api.InfrastructureConfig
		change func(*landscape, *providerState)
		// field and text are in the error; empty if there is none.
		field, text string
		code        gardencorev1beta1.ErrorCode
	}{
		"Healthy": {},
		"Kubeconfig expired": {
			change: func(_ *landscape, p *providerState) { p.lists = named(apierrors.NewUnauthorized("Unauthorized")) },
			field:  "spec.credentialsBindingName",
			text:   "replace the credentials of the Shoot",
			code:   gardencorev1beta1.ErrorInfraUnauthenticated,
		},
		"Kubeconfig without permissions": {
			change: func(_ *landscape, p *providerState) {
				p.lists = named(apierrors.NewForbidden(schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}, "", errUser))
			},
			field: "spec.credentialsBindingName",
			text:  "extension/kubernetes/provider-namespace",
			code:  gardencorev1beta1.ErrorInfraUnauthorized,
		},
		"No KubeVirt": {
			change: func(_ *landscape, p *providerState) { p.lists = notFound },
			field:  "spec.credentialsBindingName",
			text:   "install it",
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"Missing permission": {
			change: func(_ *landscape, p *providerState) { p.denied["secrets"] = true },
			field:  "spec.credentialsBindingName",
			text:   "may not create secrets",
			code:   gardencorev1beta1.ErrorInfraUnauthorized,
		},
		"Tenant networks need permissions": {
			config: config(tenant("a")),
			change: func(_ *landscape, p *providerState) { p.denied["network-attachment-definitions"] = true },
			field:  "spec.credentialsBindingName",
			text:   "create network-attachment-definitions",
			code:   gardencorev1beta1.ErrorInfraUnauthorized,
		},
		"StorageClass": {
			change: func(l *landscape, _ *providerState) {
				l.cluster.Shoot.Spec.Provider.Workers[0].Volume.Type = ptr.To("fast")
			},
			field: pool + ".volume.type",
			text:  "no StorageClass nvme",
			code:  gardencorev1beta1.ErrorRetryableConfigurationProblem,
		},
		"Zone": {
			change: func(l *landscape, _ *providerState) {
				l.cluster.Shoot.Spec.Provider.Workers[0].Zones = []string{"europe-west1-c", "europe-west1-d"}
			},
			field: pool + ".zones[1]",
			text:  "region europe-west1",
			code:  gardencorev1beta1.ErrorRetryableConfigurationProblem,
		},
		"Zone of a hibernated shoot": {
			change: func(l *landscape, _ *providerState) {
				l.cluster.Shoot.Spec.Provider.Workers[0].Zones = []string{"europe-west1-d"}
				l.cluster.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}
			},
		},
		"Scoped quota": {
			change: func(_ *landscape, p *providerState) {
				p.objects = append(p.objects, &corev1.ResourceQuota{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "besteffort"},
					Spec: corev1.ResourceQuotaSpec{
						Hard:   corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
						Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort},
					},
				})
			},
		},
		"Nodes without labels": {
			change: func(l *landscape, p *providerState) {
				l.cluster.Shoot.Spec.Provider.Workers[0].Zones = []string{"default"}
				p.objects = append(p.objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "o", Labels: map[string]string{corev1.LabelTopologyRegion: "europe-west1"}}})
			},
		},
		"Quota": {
			change: func(_ *landscape, p *providerState) {
				p.objects = append(p.objects, &corev1.ResourceQuota{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "machines"},
					Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("11Gi")}},
				})
			},
			field: "spec.provider.workers",
			text:  "ResourceQuota machines",
			code:  gardencorev1beta1.ErrorInfraQuotaExceeded,
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tc.config == nil {
				tc.config = config()
			}

			l := shootWithPool(t, tc.config)
			p := healthy()
			if tc.change != nil {
				tc.change(l, p)
			}

			f := newFlow(p.cluster(), l.infra, l.cluster)
			err := util.DetermineError(f.check(t.Context(), "europe-west1", l.cluster, &running{}), errorcodes.Known)

			if tc.field == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorContains(t, err, tc.field+": ")
			require.ErrorContains(t, err, tc.text)
			require.Equal(t, []gardencorev1beta1.ErrorCode{tc.code}, v1beta1helper.ExtractErrorCodes(err))
		})
	}
}

// named returns an error as the client of a provider cluster does.
func named(err error) error { return fmt.Errorf("%w%w", providercluster.ErrRequest, err) }

// TestCheckHotplug checks the feature gates of KubeVirt for shoots whose pods can have volumes.
func TestCheckHotplug(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		version            string
		enabled, disabled  []string
		hasVolumes, faulty bool
	}{
		"1.7 with the gate":            {version: "v1.7.0", enabled: []string{"HotplugVolumes"}, hasVolumes: true},
		"1.7 with the declarative one": {version: "v1.7.0", enabled: []string{"DeclarativeHotplugVolumes"}, hasVolumes: true},
		"1.7 without":                  {version: "v1.7.0", enabled: []string{"Snapshot"}, hasVolumes: true, faulty: true},
		"1.7 without volumes":          {version: "v1.7.0"},
		"1.9 by default":               {version: "v1.9.0", hasVolumes: true},
		"1.9 disabled":                 {version: "v1.9.0", disabled: []string{"DeclarativeHotplugVolumes"}, hasVolumes: true, faulty: true},
		"unknown version":              {version: "devel", hasVolumes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			state := healthy()
			state.objects = append(state.objects, &kubevirtv1.KubeVirt{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"},
				Spec: kubevirtv1.KubeVirtSpec{Configuration: kubevirtv1.KubeVirtConfiguration{
					DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{FeatureGates: tc.enabled, DisabledFeatureGates: tc.disabled},
				}},
				Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.version},
			})

			f := &flow{provider: state.cluster()}
			if tc.hasVolumes {
				f.profile.VolumeClasses = exposed()
			}

			require.Equal(t, tc.faulty, len(f.checkHotplug(t.Context())) > 0)
		})
	}
}

// exposed is a storage class for volumes of pods.
func exposed() []api.VolumeClass { return []api.VolumeClass{{Name: "default", ExposeAs: "default"}} }

// allRules allows each request.
func allRules() []authorizationv1.ResourceRule {
	return []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
}

// review answers a review of permissions. The rules of an account that lacks a permission are incomplete.
func (p *providerState) review(object client.Object) {
	p.reviews++

	switch review := object.(type) {
	case *authorizationv1.SelfSubjectRulesReview:
		if len(p.denied) == 0 && !p.incomplete {
			review.Status.ResourceRules = allRules()
		}
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status.Allowed = !p.denied[review.Spec.ResourceAttributes.Resource]
	}
}

// TestCheckPermissions_Requests counts the requests of a check that each health check repeats.
func TestCheckPermissions_Requests(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason     string
		incomplete bool
		rules      error
		reviews    int
		failed     bool
	}{
		"RBAC":            {reason: "the rules contain all permissions", reviews: 1},
		"OtherAuthorizer": {reason: "the rules are incomplete, so that each permission is reviewed", incomplete: true, reviews: 7},
		"Refused": {
			reason:     "the account may review only single permissions",
			incomplete: true,
			rules:      named(apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectrulesreviews"}, "", errUser)),
			reviews:    7,
		},
		"Unavailable": {reason: "the check is repeated", rules: named(apierrors.NewServiceUnavailable("")), reviews: 1, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := shootWithPool(t, &api.InfrastructureConfig{})
			p := healthy()
			p.incomplete = tc.incomplete
			p.rules = tc.rules

			faults, err := newFlow(p.cluster(), l.infra, l.cluster).checkPermissions(t.Context())
			require.Equal(t, tc.failed, err != nil, tc.reason)
			require.Empty(t, faults, tc.reason)
			require.Equal(t, tc.reviews, p.reviews, tc.reason)
		})
	}
}

// TestPermissions lists the resources of the permissions that a configuration adds.
func TestPermissions(t *testing.T) {
	t.Parallel()

	always := []string{"virtualmachines", "secrets", "datavolumes"}

	for name, tc := range map[string]struct {
		config *api.InfrastructureConfig
		change func(*flow)
		added  []string
	}{
		"Default":       {config: &api.InfrastructureConfig{}, change: func(f *flow) { f.hasLoadBalancers = false }},
		"LoadBalancers": {config: &api.InfrastructureConfig{}, added: []string{"services"}},
		"Volumes": {
			config: &api.InfrastructureConfig{},
			change: func(f *flow) {
				f.hasLoadBalancers = false
				f.profile.VolumeClasses = exposed()
			},
			added: []string{
				"virtualmachines/addvolume", "virtualmachineinstances/removevolume",
			},
		},
		"Namespace":      {config: &api.InfrastructureConfig{Namespace: &api.NamespaceConfig{Create: true}}, added: []string{"services", "namespaces"}},
		"TenantNetworks": {config: config(tenant("a")), added: []string{"services", "network-attachment-definitions"}},
		"Isolation":      {config: &api.InfrastructureConfig{Isolation: &api.IsolationConfig{Enabled: true}}, added: []string{"services", "networkpolicies"}},
		"NotIsolated":    {config: &api.InfrastructureConfig{Isolation: &api.IsolationConfig{}}, added: []string{"services"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := shootWithPool(t, tc.config)
			f := newFlow(healthy().cluster(), l.infra, l.cluster)

			if tc.change != nil {
				tc.change(f)
			}

			var resources []string
			for _, r := range f.permissions() {
				resources = append(resources, r.Resources...)
			}

			require.Equal(t, append(slices.Clone(always), tc.added...), resources)
		})
	}
}
