// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtfake "kubevirt.io/client-go/kubevirt/fake"
)

// TestCheckNetworks_Resources has the definitions of a network with and without a resource.
func TestCheckNetworks_Resources(t *testing.T) {
	t.Parallel()

	const (
		bridge   = `{"networks":[{"name":"default","pod":{}},{"name":"net1","multus":{"networkName":"shoots/marked"}}]}`
		plain    = `{"networks":[{"name":"net0","multus":{"networkName":"plain"}}]}`
		device   = `{"networks":[{"name":"net0","multus":{"networkName":"plain"}}],"domain":{"devices":{"interfaces":[{"name":"net0","sriov":{}}]}}}`
		unknown  = `{"networks":[{"name":"net0","multus":{"networkName":"unknown"}}]}`
		noMultus = `{"networks":[{"name":"default","pod":{}}]}`
		passt    = `{"networks":[{"name":"default","pod":{}}],"domain":{"devices":{"interfaces":[{"name":"default","passtBinding":{}}]}}}`
	)

	plugin := func(name string) string {
		return `{"networks":[{"name":"default","pod":{}}],"domain":{"devices":{"interfaces":[{"name":"default","binding":{"name":"` + name + `"}}]}}}`
	}

	tests := map[string]struct {
		reason           string
		spec             string
		version, webhook string
		of               string // the resources of the webhook; empty for pods
		want             []Level
	}{
		"Bridge":         {reason: "the definition names a resource, and nothing requests it", spec: bridge, version: "v1.9.0", want: []Level{OK, Warning}},
		"Bridge18":       {reason: "virt-controller 1.8 requests it", spec: bridge, version: "v1.8.4", want: []Level{OK}},
		"BridgeInjected": {reason: "a webhook requests it", spec: bridge, version: "v1.9.0", webhook: "network-resources-injector-config", want: []Level{OK, OK}},
		"InjectorLeft":   {reason: "the configuration has no webhook for pods", spec: bridge, version: "v1.9.0", webhook: "network-resources-injector-config", of: "services", want: []Level{OK, Warning}},
		"OtherWebhook":   {reason: "another webhook does not", spec: bridge, version: "v1.9.0", webhook: "virt-api-mutator", want: []Level{OK, Warning}},
		"Plain":          {reason: "the resource's name is empty", spec: plain, version: "v1.9.0", want: []Level{OK}},
		"Device":         {reason: "a device is a resource, whatever the definition names", spec: device, version: "v1.9.0", want: []Level{OK, Warning}},
		"Unknown":        {reason: "the definition does not exist", spec: unknown, version: "v1.9.0", want: []Level{Error}},
		"Passt19":        {reason: "the gate is on by default", spec: passt, version: "v1.9.0"},
		"Passt18":        {reason: "the gate is off by default", spec: passt, version: "v1.8.4", want: []Level{Error}},
		"Passt17":        {reason: "KubeVirt does not have it", spec: passt, version: "v1.7.0", want: []Level{Error}},
		"Plugin":         {reason: "it is registered", spec: plugin("registered"), version: "v1.9.0"},
		"UnknownPlugin":  {reason: "it is not registered", spec: plugin("another"), version: "v1.9.0", want: []Level{Error}},
		"NoMultus":       {reason: "the pod network has no definition", spec: noMultus, version: "v1.9.0"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var webhooks []runtime.Object
			if tc.webhook != "" {
				webhooks = append(webhooks, webhookFor(tc.webhook, cmp.Or(tc.of, "pods")))
			}

			kubeVirt := &kubevirtv1.KubeVirt{Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.version}}
			kubeVirt.Spec.Configuration.NetworkConfiguration = &kubevirtv1.NetworkConfiguration{
				Binding: map[string]kubevirtv1.InterfaceBindingPlugin{"registered": {}},
			}
			r := readerOn(t, webhooks...)
			r.clients.Metadata = networkDefinitions(t)
			r.clients.KubeVirt = kubevirtfake.NewSimpleClientset(kubeVirt)

			var got []Level
			for _, r := range checkNetworks(t.Context(), r, classOf(t, `{"spec":{"template":{"spec":`+tc.spec+`}}}`)) {
				got = append(got, r.Level)
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// webhookFor returns the configuration of a webhook for a resource.
func webhookFor(name, resource string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{Resources: []string{resource}}}},
		}},
	}
}

// networkDefinitions returns a client that knows a definition with a resource and one without.
func networkDefinitions(t *testing.T) *metadatafake.FakeMetadataClient {
	t.Helper()

	definition := func(namespace, name, resource string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: kindNetwork.resource.GroupVersion().String(), Kind: kindNetwork.name},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": resource}},
		}
	}

	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))

	client := metadatafake.NewSimpleMetadataClient(scheme)
	for _, d := range []*metav1.PartialObjectMetadata{
		definition("shoots", "marked", "bridge.network.kubevirt.io/br1"), definition("machines", "plain", ""),
	} {
		require.NoError(t, client.Tracker().Create(kindNetwork.resource, d, d.Namespace))
	}

	return client
}

// TestCheckBindings_DiscontinuedPlugin does not advise to register a plugin that KubeVirt does not have any more.
func TestCheckBindings_DiscontinuedPlugin(t *testing.T) {
	t.Parallel()

	const spec = `{"spec":{"template":{"spec":{"domain":{"devices":{"interfaces":[{"name":"default","binding":{"name":"passt"}}]}}}}}}`

	results := checkBindings(readerOn(t), classOf(t, spec), &kubevirtv1.KubeVirt{})
	require.Len(t, results, 1)
	require.Contains(t, results[0].Remedy, "passtBinding: {}")
	require.NotContains(t, results[0].Remedy, "register")
}
