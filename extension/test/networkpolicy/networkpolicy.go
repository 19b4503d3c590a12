// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package networkpolicy answers which pods of a shoot's control plane may send traffic, by the NetworkPolicies
// that gardener-resource-manager makes for the Services of a seed. Unit tests call it. It needs no cluster.
package networkpolicy

import (
	"testing"

	resourcemanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/resourcemanager/v1alpha1"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/networkpolicy"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// shootNamespace and istioNamespace are namespaces of a seed.
	shootNamespace, istioNamespace = "shoot--a--b", "istio-ingress"
	// istioPort is the port of istio's pods for the API servers of shoots.
	istioPort = 9443
)

// ReachesIstio reports whether pods of a template, in the namespace of a shoot, may reach the API servers of other
// shoots of their seed: requests for these go to istio's ingress gateway, a pod of the seed, and no policy for public
// or private networks applies to them.
func ReachesIstio(t *testing.T, template *corev1.PodTemplateSpec) bool {
	t.Helper()

	gateway := istioService()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace, Name: "pod", Labels: template.Labels}}
	seed := fake.NewClientBuilder().WithScheme(kubernetesscheme.Scheme).WithObjects(
		namespace(shootNamespace, map[string]string{"gardener.cloud/role": "shoot"}), namespace(istioNamespace, nil), gateway, pod,
	).Build()

	_, err := (&networkpolicy.Reconciler{
		TargetClient: seed,
		Config:       resourcemanagerconfigv1alpha1.NetworkPolicyControllerConfig{},
		Recorder:     &events.FakeRecorder{},
	}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(gateway)})
	require.NoError(t, err)

	policies := &networkingv1.NetworkPolicyList{}
	require.NoError(t, seed.List(t.Context(), policies, client.InNamespace(shootNamespace)))

	for i := range policies.Items {
		if allowsEgress(t, &policies.Items[i], pod, gateway.Spec.Selector) {
			return true
		}
	}

	return false
}

// istioService is the Service of istio's ingress gateway, with the annotations of Gardener
// (pkg/component/networking/istio/charts/istio/istio-ingress/templates/service.yaml).
func istioService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: istioNamespace,
			Name:      "istio-ingressgateway",
			Annotations: map[string]string{
				"networking.resources.gardener.cloud/namespace-selectors": `[{"matchLabels":{"gardener.cloud/role":"extension"}},{"matchLabels":{"gardener.cloud/role":"shoot"}},` +
					`{"matchLabels":{"kubernetes.io/metadata.name":"garden"}}]`,
				"networking.resources.gardener.cloud/pod-label-selector-namespace-alias": "all-istio-ingresses",
			},
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "istio-ingressgateway"},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(istioPort), Protocol: corev1.ProtocolTCP}},
		},
	}
}

func namespace(name string, with map[string]string) *corev1.Namespace {
	all := labels.Merge(with, labels.Set{corev1.LabelMetadataName: name})

	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}}
}

// allowsEgress reports whether a policy selects a pod, and allows it to send traffic to pods with these labels in the
// namespace of istio.
func allowsEgress(t *testing.T, policy *networkingv1.NetworkPolicy, pod *corev1.Pod, to labels.Set) bool {
	t.Helper()

	if !matches(t, &policy.Spec.PodSelector, pod.Labels) {
		return false
	}

	for _, rule := range policy.Spec.Egress {
		for _, peer := range rule.To {
			if peer.PodSelector == nil || peer.NamespaceSelector == nil || len(rule.Ports) != 1 {
				continue
			}

			if matches(t, peer.PodSelector, to) && matches(t, peer.NamespaceSelector, labels.Set{corev1.LabelMetadataName: istioNamespace}) &&
				rule.Ports[0].Port.IntValue() == istioPort {
				return true
			}
		}
	}

	return false
}

func matches(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()

	parsed, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)

	return parsed.Matches(set)
}
