// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

var createOptions metav1.CreateOptions

// breakages returns the defects to test one at a time.
func breakages(t *testing.T) map[string]breakage {
	t.Helper()

	all := map[string]breakage{}

	for _, some := range []map[string]breakage{
		brokenCredentials(), brokenPermissions(), brokenInstallations(), brokenStorage(), brokenReferences(t), brokenRoom(), brokenObjects(),
	} {
		for name, b := range some {
			all[name] = b
		}
	}

	return all
}

func bad(check string, level checks.Level, subject, message, remedy string) checks.Result {
	return checks.Result{Check: check, Level: level, Subject: subject, Message: message, Remedy: remedy}
}

// changes returns a defect that sets fields of the class.
func changes(fields map[string]string) func(*testing.T, *harness.Shoot, *flight) {
	return func(_ *testing.T, s *harness.Shoot, f *flight) {
		for path, text := range fields {
			f.spec[path] = strings.ReplaceAll(text, "PROVIDER", s.ProviderNamespace)
		}
	}
}

// inTemplate returns a virtualMachineTemplate that also tolerates the idle zone.
func inTemplate(spec, instance string) string {
	return fmt.Sprintf(`{spec: {%s template: {spec: {%s tolerations: [{key: %s, operator: Exists}]}}}}`, spec, instance, suite.IdleTaint)
}

func brokenCredentials() map[string]breakage {
	return map[string]breakage{
		"Unreachable": {
			reason: "no server listens at the address",
			want:   []checks.Result{bad("credentials", checks.Error, "Secret", "server https://127.0.0.1:1", "curl")},
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				config, err := clientcmd.Load(f.driver)
				require.NoError(t, err)

				config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server = "https://127.0.0.1:1"
				f.driver, err = clientcmd.Write(*config)
				require.NoError(t, err)

				f.admin = nil
			},
		},
		"Expired": {
			reason: "the token has expired",
			want: []checks.Result{
				bad("credentials", checks.Error, "Secret", "Unauthorized", "create token"),
				bad("credentials-expiry", checks.Error, "token in Secret", "expired", "create token"),
			},
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				f.driver = withClaims(t, f.driver, -time.Hour)
				f.admin = nil
			},
		},
		"ExpiresSoon": {
			reason: "the token expires soon",
			want: []checks.Result{
				bad("credentials-expiry", checks.Warning, "token in Secret", "expires in 59m", "put new credentials"),
			},
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				config, err := clientcmd.Load(f.driver)
				require.NoError(t, err)

				valid := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token
				f.driver = withClaims(t, f.driver, time.Hour)
				f.between(t, func(_ http.ResponseWriter, r *http.Request) bool {
					if strings.HasSuffix(r.Header.Get("Authorization"), ".unsigned") {
						r.Header.Set("Authorization", "Bearer "+valid)
					}

					return false
				}, asAnswered)
			},
		},
	}
}

// withClaims returns the kubeconfig with an unsigned token.
func withClaims(t *testing.T, kubeconfig []byte, left time.Duration) []byte {
	t.Helper()

	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)

	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, time.Now().AddDate(0, -1, 0).Unix(), time.Now().Add(left).Unix())
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token = part(`{"alg":"RS256"}`) + "." + part(claims) + ".unsigned"

	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)

	return raw
}

// withoutPermission removes verbs for a resource from the driver's Role, and rules left without
// verbs.
func withoutPermission(resource string, verbs ...string) func(*testing.T, *harness.Shoot, *flight) {
	return func(t *testing.T, s *harness.Shoot, _ *flight) {
		t.Helper()

		s.ExpectDenials("the driver lacks a permission that preflight misses")

		roles := s.Kube.RbacV1().Roles(s.ProviderNamespace)
		role, err := roles.Get(t.Context(), "machine-controller", metav1.GetOptions{})
		require.NoError(t, err)

		var rules []rbacv1.PolicyRule

		for _, rule := range role.Rules {
			for _, of := range rule.Resources {
				one := *rule.DeepCopy()
				one.Resources = []string{of}

				if of == resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return slices.Contains(verbs, v) })
				}

				if len(one.Verbs) > 0 {
					rules = append(rules, one)
				}
			}
		}

		role.Rules = rules
		_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		require.NoError(t, err)

		group := map[string]string{"virtualmachines": "kubevirt.io", "datavolumes": "cdi.kubevirt.io"}[resource]
		for _, verb := range verbs {
			s.DriverRight(verb, group, resource).Await(t, false)
		}
	}
}

func brokenPermissions() map[string]breakage {
	const (
		vms, volumes = "virtualmachines.kubevirt.io", "datavolumes.cdi.kubevirt.io"
		subject      = "permissions in Namespace PROVIDER"
		grant        = "set namespace: PROVIDER in kubernetes/provider-namespace/kustomization.yaml and run: kubectl apply -k kubernetes/provider-namespace"
	)

	return map[string]breakage{
		"MissingPermission": {
			reason: "a permission that every driver needs",
			own:    true,
			breaks: withoutPermission("virtualmachines", "delete"),
			want:   []checks.Result{bad("permission", checks.Error, subject, "missing: "+vms+" (delete); machines cannot be", grant)},
		},
		"MissingOptionalPermission": {
			reason: "a permission that these classes do not need",
			own:    true,
			breaks: func(t *testing.T, s *harness.Shoot, f *flight) {
				t.Helper()

				withoutPermission("datavolumes", "create")(t, s, f)
				f.spec["rootVolume"] = `{containerDisk: {image: example.com/image}}`
			},
			want: []checks.Result{bad("permission", checks.Warning, subject, "missing: "+volumes+" (create)", "disablePreAllocatedDataVolumes")},
		},
		"MissingGoldenImagePermission": {
			reason: "the same permission, and a class that needs it",
			own:    true,
			breaks: withoutPermission("datavolumes", "create"),
			want: []checks.Result{
				bad("permission", checks.Error, subject, "missing: "+volumes+" (create)", "disablePreAllocatedDataVolumes"),
				bad("dry-run", checks.Error, "the golden image", "permission denied", "permission"),
			},
		},
		"MissingDiagnosisPermission": {
			reason: "a permission without which the diagnosis is less exact",
			own:    true,
			breaks: withoutPermission("pods", "list"),
			want:   []checks.Result{bad("permission", checks.Warning, subject, "missing: pods (list)", grant)},
		},
		"MissingEvacuationPermission": {
			reason: "permissions for a flag",
			breaks: func(_ *testing.T, _ *harness.Shoot, f *flight) { f.args = []string{"--evacuation"} },
			want: []checks.Result{
				bad("permission", checks.Error, subject, "virtualmachineinstances.kubevirt.io (list), virtualmachineinstancemigrations.kubevirt.io (list, watch, create, delete)",
					"kubectl apply -k kubernetes/evacuation/provider-namespace; or run the machine controller without --evacuation"),
			},
		},
		"ForbiddenClone": {
			reason: "an image of another namespace",
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()

				other := harness.NewShoot(t)
				makeUnboundImage(t, other)
				f.spec["rootVolume.source"] = `{pvc: {name: image, namespace: ` + other.ProviderNamespace + `}}`
			},
			want: []checks.Result{bad("clone-permission", checks.Error, "ServiceAccount PROVIDER/default", "is not allowed",
				"--resource=datavolumes.cdi.kubevirt.io/source")},
		},
	}
}

// makeUnboundImage creates a claim that stays unbound.
func makeUnboundImage(t *testing.T, s *harness.Shoot) {
	t.Helper()

	_, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "image"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To("wait"),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, createOptions)
	require.NoError(t, err)
}

func brokenInstallations() map[string]breakage {
	return map[string]breakage{
		"KubeVirtNotReady": {
			reason: "KubeVirt reports that it is not available",
			want:   []checks.Result{bad("kubevirt", checks.Error, "KubeVirt", "Available is False: broken", "describe kubevirt kubevirt")},
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()
				f.between(t, unanswered, func(resp *http.Response) {
					if strings.HasSuffix(resp.Request.URL.Path, "/kubevirts") {
						edit(resp, func(list map[string]any) {
							found, _ := list["items"].([]any)[0].(map[string]any)
							condition := map[string]any{"type": "Available", "status": "False", "message": "broken"}
							_ = unstructured.SetNestedSlice(found, []any{condition}, "status", "conditions")
						})
					}
				})
			},
		},
		"KubeVirtOlderThanKubernetes": {
			reason: "this KubeVirt may start no machine on this Kubernetes",
			want:   []checks.Result{bad("kubevirt", checks.Warning, "Kubernetes", "KubeVirt v1.6.0 on Kubernetes 1.34.2 may start no machine", "upgrade KubeVirt to 1.7")},
			breaks: func(t *testing.T, _ *harness.Shoot, f *flight) {
				t.Helper()
				f.between(t, unanswered, func(resp *http.Response) {
					switch path := resp.Request.URL.Path; {
					case strings.HasSuffix(path, "/kubevirts"):
						edit(resp, func(list map[string]any) {
							found, _ := list["items"].([]any)[0].(map[string]any)
							_ = unstructured.SetNestedField(found, "v1.6.0", "status", "observedKubeVirtVersion")
						})
					case strings.HasSuffix(path, "/version"):
						edit(resp, func(version map[string]any) { version["gitVersion"] = "v1.34.2" })
					}
				})
			},
		},
		"KubeVirtMissing": {
			reason: "KubeVirt is not installed",
			want: []checks.Result{
				bad("kubevirt", checks.Error, "KubeVirt", "is not installed", "install KubeVirt"),
				bad("dry-run", checks.Error, "VirtualMachine", "precondition", "kubevirt"),
			},
			breaks: withoutGroup("kubevirt.io"),
		},
		"CDIMissing": {
			reason: "CDI is not installed",
			want: []checks.Result{
				bad("cdi", checks.Error, "CDI", "is not installed", "install CDI"),
				bad("dry-run", checks.Error, "the golden image", "precondition", "cdi"),
			},
			breaks: withoutGroup("cdi.kubevirt.io"),
		},
		"WebhookDown": {
			reason: "the webhook of VirtualMachines is unavailable",
			own:    true,
			breaks: withDeadWebhook,
			want:   []checks.Result{bad("webhook", checks.Error, "webhook virtualmachines.preflight.kubevirt.io", "does not respond", "virt-api")},
		},
	}
}

// withoutGroup hides an API group of the API server.
func withoutGroup(group string) func(*testing.T, *harness.Shoot, *flight) {
	return func(t *testing.T, _ *harness.Shoot, f *flight) {
		t.Helper()
		f.between(t, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/apis/"+group+"/") {
				return false
			}

			http.Error(w, "404 page not found", http.StatusNotFound) // The API server's answer for unknown paths.

			return true
		}, asAnswered)
	}
}

// withDeadWebhook registers an unreachable webhook for the namespace.
func withDeadWebhook(t *testing.T, s *harness.Shoot, _ *flight) {
	t.Helper()

	webhooks := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.ProviderNamespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "virtualmachines.preflight.kubevirt.io",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.ProviderNamespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"*"}, Resources: []string{"virtualmachines"}},
			}},
		}},
	}, createOptions)
	require.NoError(t, err)
	awaitWebhook(t, s, "virtualmachines.preflight.kubevirt.io")
}
