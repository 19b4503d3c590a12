// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

func brokenStorage() map[string]breakage {
	return map[string]breakage{
		"StorageClassMissing": {
			reason: "a storage class that does not exist",
			breaks: changes(map[string]string{"rootVolume.storage.storageClassName": "nosuch"}),
			want: []checks.Result{bad("storage-class", checks.Error, "StorageClass nosuch", "does not exist",
				"set providerSpec.rootVolume.storage.storageClassName to one of")},
		},
		"StorageProfileWithoutAccessModes": {
			reason: "storage that CDI does not know",
			breaks: onBareStorage,
			want: []checks.Result{
				bad("storage-profile", checks.Error, "StorageProfile bare-", "has no access modes", "kubectl patch storageprofile bare-"),
				bad("clone-strategy", checks.Warning, "StorageProfile bare-", "copied through pods", "kubectl patch storageprofile bare-"),
			},
		},
		"SlowClones": {
			reason: "storage that cannot clone",
			breaks: changes(map[string]string{"rootVolume.storage.storageClassName": "copy"}),
			want:   []checks.Result{bad("clone-strategy", checks.Warning, "StorageProfile copy, for rootVolume", "copied through pods", "kubectl patch storageprofile copy")},
		},
		"ClaimMissing": {
			reason: "the source claim of a clone does not exist",
			breaks: changes(map[string]string{"rootVolume.source": "{pvc: {name: nosuch, namespace: PROVIDER}}"}),
			want:   []checks.Result{bad("source", checks.Error, "PersistentVolumeClaim PROVIDER/nosuch", "does not exist", "change providerSpec.rootVolume.source.pvc.name")},
		},
		"DataSourceMissing": {
			reason: "the DataSource of a clone does not exist",
			breaks: changes(map[string]string{
				"rootVolume.source": "", "rootVolume.sourceRef": "{kind: DataSource, name: nosuch, namespace: PROVIDER}",
			}),
			want: []checks.Result{bad("source", checks.Error, "DataSource PROVIDER/nosuch", "does not exist", "change providerSpec.rootVolume.sourceRef.name")},
		},
		"ImportSecretMissing": {
			reason: "the Secret for a registry does not exist",
			breaks: changes(map[string]string{"rootVolume.source.registry.secretRef": "nosuch"}),
			want:   []checks.Result{bad("source", checks.Error, "Secret PROVIDER/nosuch", "does not exist", "change providerSpec.rootVolume.source.registry.secretRef")},
		},
	}
}

// onBareStorage creates a storage class for which CDI has no recommendations.
func onBareStorage(t *testing.T, s *harness.Shoot, f *flight) {
	t.Helper()

	name := "bare-" + s.ProviderNamespace
	_, err := s.Kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: "example.com/unknown",
	}, createOptions)
	require.NoError(t, err)

	awaitProfile(t, s, name)

	f.spec["rootVolume.storage.storageClassName"] = name
	f.spec["rootVolume.storage.accessModes"] = ""
}

// withoutInjector are the results about a network whose resource no webhook requests. Since 1.9,
// KubeVirt does not request it (gate ExternalNetResourceInjection).
var withoutInjector = harness.PerKubeVirt[[]checks.Result]{
	"1.6": nil,
	"1.7": nil,
	"1.8": nil,
	"1.9": {bad("network", checks.Warning, "resources of Multus networks", "nor a network-resources-injector requests", "disabledFeatureGates")},
}

func brokenReferences(t *testing.T) map[string]breakage {
	t.Helper()

	withCard := []checks.Result{
		bad("network", checks.Error, "NetworkAttachmentDefinition PROVIDER/nosuch", "has no resource", "remove providerSpec.networks[1].name"),
	}
	definitions := schema.GroupResource{Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"}

	return map[string]breakage{
		"MultusMissing": {
			reason: "the API has no Multus networks",
			breaks: changes(map[string]string{"networks": "[{name: nosuch}]"}),
			want: []checks.Result{bad("network", checks.Error, "NetworkAttachmentDefinition PROVIDER/nosuch", "has no resource network-attachment-definitions.k8s.cni.cncf.io",
				"remove providerSpec.networks[0].name")},
		},
		"SRIOVWithoutInjector": {
			reason: "no webhook requests the devices of a network",
			breaks: changes(map[string]string{"networks": "[{pod: {}}, {name: nosuch, sriov: {}}]"}),
			want:   slices.Concat(withCard, withoutInjector.Get(t)),
		},
		"BridgeWithoutInjector": {
			reason: "no webhook requests the resource that the definition of a bridge network names",
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				f.spec["networks"] = "[{pod: {}}, {name: marked}]"
				f.between(t, func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/"+definitions.Resource+"/marked") {
						return false
					}

					w.Header().Set("Content-Type", "application/json")

					return json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{
						TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
						ObjectMeta: metav1.ObjectMeta{Name: "marked", Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": "bridge.network.kubevirt.io/br1"}},
					}) == nil
				}, asAnswered)
			},
			want: withoutInjector.Get(t),
		},
		"SRIOVWithInjector": {
			reason: "a webhook requests them; the network is missing",
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				f.spec["networks"] = "[{pod: {}}, {name: nosuch, sriov: {}}]"
				f.between(t, func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations") {
						return false
					}

					w.Header().Set("Content-Type", "application/json")

					return json.NewEncoder(w).Encode(admissionregistrationv1.MutatingWebhookConfigurationList{
						TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfigurationList"},
						Items: []admissionregistrationv1.MutatingWebhookConfiguration{{
							ObjectMeta: metav1.ObjectMeta{Name: "network-resources-injector-config"},
							Webhooks: []admissionregistrationv1.MutatingWebhook{{
								Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{Resources: []string{"pods"}}}},
							}},
						}},
					}) == nil
				}, asAnswered)
			},
			want: withCard,
		},
		"NetworkMissing": {
			reason: "a network in a namespace that does not exist",
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				f.spec["networks"] = "[{name: tenants/nosuch}]"
				f.between(t, func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.Path, definitions.Resource) {
						return false
					}

					status := apierrors.NewNotFound(definitions, "nosuch").Status()
					status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)

					return json.NewEncoder(w).Encode(status) == nil
				}, asAnswered)
			},
			want: []checks.Result{bad("network", checks.Error, "NetworkAttachmentDefinition tenants/nosuch",
				"Namespace tenants does not exist", "correct the namespace beside providerSpec.networks[0].name")},
		},
		"InstancetypeMissing": {
			reason: "an instancetype that does not exist",
			breaks: changes(map[string]string{
				"cpu": "", "memory": "", "virtualMachineTemplate": inTemplate("instancetype: {name: nosuch},", ""),
			}),
			want: []checks.Result{
				bad("instancetype", checks.Error, "virtualmachineclusterinstancetypes.instancetype.kubevirt.io nosuch", "does not exist",
					"change providerSpec.virtualMachineTemplate.spec.instancetype.name"),
			},
		},
		"PriorityClassMissing": {
			reason: "CDI's pods cannot be created without it",
			breaks: changes(map[string]string{"rootVolume.priorityClassName": "nosuch"}),
			want:   []checks.Result{bad("source", checks.Error, "PriorityClass nosuch", "does not exist", "change providerSpec.rootVolume.priorityClassName")},
		},
		"PreferenceMissing": {
			reason: "a preference that does not exist",
			breaks: changes(map[string]string{
				"virtualMachineTemplate": inTemplate("preference: {name: nosuch, kind: VirtualMachinePreference},", ""),
			}),
			want: []checks.Result{bad("preference", checks.Error, "virtualmachinepreferences.instancetype.kubevirt.io PROVIDER/nosuch", "does not exist",
				"kubectl --namespace PROVIDER get virtualmachinepreferences.instancetype.kubevirt.io")},
		},
	}
}

func brokenRoom() map[string]breakage {
	return map[string]breakage{
		"ZoneWithoutNodes": {
			reason: "a zone that does not exist",
			breaks: changes(map[string]string{"zone": "zone-z"}),
			want:   []checks.Result{bad("zone", checks.Error, "region local, zone zone-z", "has no nodes", "local/zone-idle")},
		},
		"ZoneOfOthers": {
			reason: "nodes with a taint that the machines do not tolerate",
			breaks: changes(map[string]string{"virtualMachineTemplate": ""}),
			want:   []checks.Result{bad("zone", checks.Error, "zone zone-idle", "provider-idle has the taint "+suite.IdleTaint, "tolerations")},
		},
		"ZoneWithoutVirtualization": {
			reason: "nodes without hardware virtualization",
			breaks: changes(map[string]string{"zone": suite.EmulatedZone}),
			want:   []checks.Result{bad("zone", checks.Error, "zone "+suite.EmulatedZone, "has no hardware virtualization", "kubectl describe nodes")},
		},
		"NoCPUManager": {
			reason: "nodes without the static CPU manager",
			breaks: changes(map[string]string{"cpu.dedicatedCpuPlacement": "true"}),
			want:   []checks.Result{bad("zone", checks.Error, "zone zone-idle", "lacks the label cpumanager=true", "kubectl describe nodes")},
		},
		"QuotaTooSmall": {
			reason: "a quota for less than one machine",
			own:    true,
			breaks: withQuota(corev1.ResourceRequestsStorage, "30Gi"),
			want: []checks.Result{bad("quota", checks.Warning, "ResourceQuotas of Namespace PROVIDER", "requests.storage",
				"kubectl --namespace PROVIDER describe resourcequotas")},
		},
	}
}

func withQuota(what corev1.ResourceName, most string) func(*testing.T, *harness.Shoot, *flight) {
	return func(t *testing.T, s *harness.Shoot, _ *flight) {
		t.Helper()

		_, err := s.Kube.CoreV1().ResourceQuotas(s.ProviderNamespace).Create(t.Context(), quota(what, most), createOptions)
		require.NoError(t, err)
	}
}

func brokenObjects() map[string]breakage {
	dropped := func(path, origin string) checks.Result {
		return bad("dropped-fields", checks.Error, "VirtualMachine", "drops "+path, "remove "+origin)
	}

	return map[string]breakage{
		"UnknownField": {
			reason: "a field that no CDI of the lab knows",
			breaks: changes(map[string]string{
				"rootVolume.source": `{http: {url: "https://images.example.com/worker.qcow2", insecureSkipVerify: true}}`,
			}),
			want: []checks.Result{bad("dry-run", checks.Error, "DataVolume", "rootVolume.source.http.insecureSkipVerify", "change the fields")},
		},
		"Refused": {
			reason: "a spec that KubeVirt's own webhook refuses",
			breaks: changes(map[string]string{
				"virtualMachineTemplate": inTemplate("", "domain: {firmware: {bootloader: {efi: {secureBoot: true}}}},"),
			}),
			want: []checks.Result{bad("dry-run", checks.Error, "VirtualMachine", "SecureBoot", "change the fields")},
		},
		"DroppedFields": {
			reason: "fields that the API server drops",
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				f.spec["devices"] = "{rng: {}}"
				f.spec["dnsPolicy"] = "Default"
				f.between(t, unanswered, dropFields)
			},
			want: []checks.Result{
				dropped("spec.dataVolumeTemplates[0].spec.storage.accessModes", "providerSpec.rootVolume.storage.accessModes"),
				dropped("spec.template.spec.dnsPolicy", "providerSpec.dnsPolicy"),
				dropped("spec.template.spec.domain.cpu.cores", "providerSpec.cpu.cores"),
				dropped("spec.template.spec.domain.devices.rng", "providerSpec.devices.rng"),
				dropped("spec.template.spec.tolerations", "providerSpec.virtualMachineTemplate.spec.template.spec.tolerations"),
			},
		},
	}
}

// dropFields drops fields of a VirtualMachine as an old KubeVirt does.
func dropFields(resp *http.Response) {
	if !madeVirtualMachine(resp) {
		return
	}

	edit(resp, func(vm map[string]any) {
		instance := []string{"spec", "template", "spec"}
		for _, path := range [][]string{{"dnsPolicy"}, {"domain", "cpu", "cores"}, {"domain", "devices", "rng"}, {"tolerations"}} {
			unstructured.RemoveNestedField(vm, append(slices.Clone(instance), path...)...)
		}

		templates, _, _ := unstructured.NestedSlice(vm, "spec", "dataVolumeTemplates")
		first, _ := templates[0].(map[string]any)
		unstructured.RemoveNestedField(first, "spec", "storage", "accessModes")
		_ = unstructured.SetNestedSlice(vm, templates, "spec", "dataVolumeTemplates")
	})
}
