// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command cdi-manifests prints the objects CDI's operator would create, as one JSON list.
//
// The lab's build runs it once and stores the output; the lab's control plane adapts it (addresses,
// certificates) and applies it. It prints only the objects returned by CDI's own packages, and
// knows nothing of the lab.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/containerized-data-importer/pkg/common"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources/cluster"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources/namespaced"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const namespace = "cdi"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cdi-manifests:", err)
		os.Exit(1)
	}
}

func run() error {
	objects, err := factoryObjects()
	if err != nil {
		return err
	}
	items := make([]any, 0, len(objects)+len(resources.CDICRDs))
	names := make([]string, 0, len(resources.CDICRDs))
	for name := range resources.CDICRDs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		var definition map[string]any
		if err := yaml.Unmarshal([]byte(resources.CDICRDs[name]), &definition); err != nil {
			return fmt.Errorf("decode CRD %s: %w", name, err)
		}
		items = append(items, definition)
	}
	for _, o := range objects {
		if _, workload := o.(*appsv1.Deployment); !workload && !isCRD(o) {
			items = append(items, o)
		}
	}
	items = append(items, claimWebhook())
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	return nil
}

func isCRD(o client.Object) bool {
	return o.GetObjectKind().GroupVersionKind().Kind == "CustomResourceDefinition"
}

func factoryObjects() ([]client.Object, error) {
	args := &cluster.FactoryArgs{Namespace: namespace, Logger: logr.Discard()}
	static, err := cluster.CreateAllStaticResources(args)
	if err != nil {
		return nil, fmt.Errorf("list cluster objects: %w", err)
	}
	dynamic, err := cluster.CreateAllDynamicResources(args)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	const image = "lab.local/cdi" // required by the factories; the Deployments that would use it are omitted
	own, err := namespaced.CreateAllResources(&namespaced.FactoryArgs{
		Namespace:              namespace,
		Verbosity:              "1",
		PullPolicy:             "IfNotPresent",
		OperatorVersion:        "lab",
		DeployClusterResources: "true",
		ControllerImage:        image,
		ImporterImage:          image,
		ClonerImage:            image,
		OvirtPopulatorImage:    image,
		APIServerImage:         image,
		UploadProxyImage:       image,
		UploadServerImage:      image,
	})
	if err != nil {
		return nil, fmt.Errorf("list objects of namespace %s: %w", namespace, err)
	}
	return append(append(static, dynamic...), own...), nil
}

// claimWebhook is the only registration that CDI's operator builds in unexported code: it applies
// StorageProfiles to labelled PersistentVolumeClaims.
func claimWebhook() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "cdi-api-pvc-mutate"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "pvc-mutate.cdi.kubevirt.io",
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups:   []string{""},
					APIVersions: []string{"v1"},
					Resources:   []string{"persistentvolumeclaims"},
				},
			}},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
				Namespace: namespace,
				Name:      "cdi-api",
				Path:      ptr("/pvc-mutate"),
			}},
			FailurePolicy:           ptr(admissionv1.Fail),
			SideEffects:             ptr(admissionv1.SideEffectClassNone),
			MatchPolicy:             ptr(admissionv1.Exact),
			AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				common.PvcApplyStorageProfileLabel: "true",
			}},
		}},
	}
}

func ptr[T any](v T) *T { return &v }
