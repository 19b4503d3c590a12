// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// The types of Cluster API and of its provider for KubeVirt.
var (
	clusters         = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	clusterMachines  = clusters.GroupVersion().WithResource("machines")
	kubeVirtClusters = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Resource: "kubevirtclusters"}
	kubeVirtMachines = kubeVirtClusters.GroupVersion().WithResource("kubevirtmachines")
)

// clusterAPI is Cluster API with its provider for KubeVirt, for one shoot. There is neither a bootstrap nor a control plane
// provider: the Cluster and its control plane are managed externally, and the user data of each machine is given.
type clusterAPI struct {
	*harness.Shoot

	binaries  *binaries.ClusterAPI
	objects   dynamic.Interface
	template  map[string]map[string]any // of the VirtualMachines, by zone
	processes []*process.Process
}

// startClusterAPI applies Cluster API's types, runs both programs until the test ends, and creates the shoot's Cluster.
func startClusterAPI(t *testing.T, s *harness.Shoot, workers int) *clusterAPI {
	t.Helper()

	found, err := binaries.EnsureClusterAPI(t.Context(), os.Stderr)
	require.NoError(t, err)

	objects, err := dynamic.NewForConfig(harness.Lab().Control.Config())
	require.NoError(t, err)

	c := &clusterAPI{Shoot: s, binaries: found, objects: objects}
	certificates := certificatesOfWebhooks(t)
	ports, err := process.FreePorts(t.Context(), 6)
	require.NoError(t, err)
	c.applyTypes(t, ports[0])

	group := process.NewGroup(harness.Lab().LogDir)
	t.Cleanup(func() { require.NoError(t, group.Stop(context.WithoutCancel(t.Context()))) })

	for i, program := range []struct{ path, workers string }{
		{found.Core, "--machine-concurrency"}, {found.Provider, "--concurrency"},
	} {
		own := ports[3*i : 3*i+3]
		started, err := group.Start(process.Spec{
			Name: filepath.Base(program.path),
			Path: program.path,
			Args: []string{
				"--kubeconfig=" + harness.Lab().Control.AdminKubeconfig, "--namespace=" + s.Namespace,
				"--kube-api-qps=200", "--kube-api-burst=400", // those of the driver and of machine-controller-manager in the lab
				"--webhook-cert-dir=" + certificates, fmt.Sprintf("--webhook-port=%d", own[0]),
				fmt.Sprintf("--health-addr=127.0.0.1:%d", own[1]),
				fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", own[2]), "--insecure-diagnostics",
				fmt.Sprintf("%s=%d", program.workers, workers),
			},
		})
		require.NoError(t, err)
		require.NoError(t, controlplane.AwaitHTTP(t.Context(), started, fmt.Sprintf("http://127.0.0.1:%d/healthz", own[1])))

		c.processes = append(c.processes, started)
	}

	c.createCluster(t)

	return c
}

// certificatesOfWebhooks returns a folder with the control cluster's own certificate under the names that both programs use.
func certificatesOfWebhooks(t *testing.T) string {
	t.Helper()

	folder := t.TempDir()
	pki := filepath.Join(filepath.Dir(harness.Lab().Control.AdminKubeconfig), "pki")

	for from, to := range map[string]string{"server.crt": "tls.crt", "server.key": "tls.key"} {
		raw, err := os.ReadFile(filepath.Join(pki, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, to), raw, 0o600))
	}

	return folder
}

// applyTypes applies the CustomResourceDefinitions as the projects' kustomizations would: with the webhook that converts
// Cluster API's types, and with the label by which Cluster API finds the version of its provider's types.
func (c *clusterAPI) applyTypes(t *testing.T, port int) {
	t.Helper()

	core := definitions(t, c.binaries.CoreTypes)
	for _, d := range core {
		require.NoError(t, unstructured.SetNestedMap(d.Object, map[string]any{
			"strategy": "Webhook",
			"webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig": map[string]any{
					"url":      fmt.Sprintf("https://127.0.0.1:%d/convert", port),
					"caBundle": base64.StdEncoding.EncodeToString(harness.Lab().Control.Config().CAData),
				},
			},
		}, "spec", "conversion"))
	}

	provider := definitions(t, c.binaries.ProviderTypes)
	for _, d := range provider {
		d.SetLabels(map[string]string{"cluster.x-k8s.io/provider": "kubevirt", "cluster.x-k8s.io/v1beta1": "v1alpha1"})
	}

	all := slices.Concat(core, provider)
	require.NoError(t, harness.Lab().Control.Apply(t.Context(), all))
	harness.Eventually(t, "the API server serves the types", func(context.Context) (bool, error) { return c.serves(all) })
}

// serves reports whether the API server's discovery, which both programs read when they start, has the types.
func (c *clusterAPI) serves(definitions []unstructured.Unstructured) (bool, error) {
	_, lists, err := c.Target.Discovery().ServerGroupsAndResources()
	if err != nil {
		return false, err
	}

	served := map[string]bool{}

	for _, list := range lists {
		for i := range list.APIResources {
			group, _, _ := strings.Cut(list.GroupVersion, "/")
			served[list.APIResources[i].Name+"."+group] = true
		}
	}

	return !slices.ContainsFunc(definitions, func(d unstructured.Unstructured) bool { return !served[d.GetName()] }), nil
}

// definitions returns the objects of a folder of YAML files with one object each.
func definitions(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)

	var objects []unstructured.Unstructured

	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)

		o := unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(raw, &o.Object))

		objects = append(objects, o)
	}

	return objects
}

// createCluster creates a Cluster whose infrastructure and control plane exist: the lab's target cluster.
func (c *clusterAPI) createCluster(t *testing.T) {
	t.Helper()

	control := harness.Lab().Control
	server, err := url.Parse(control.ServerURL)
	require.NoError(t, err)
	port, err := strconv.ParseInt(server.Port(), 10, 64)
	require.NoError(t, err)
	kubeconfig, err := control.Kubeconfig(control.Config().BearerToken, "")
	require.NoError(t, err)

	require.NoError(t, c.createSecret(t.Context(), c.Name+"-kubeconfig", "value", kubeconfig))
	require.NoError(t, c.createSecret(t.Context(), c.Name+"-provider", "kubeconfig", c.ProviderKubeconfig))

	endpoint := map[string]any{"host": server.Hostname(), "port": port}
	require.NoError(t, c.apply(t.Context(), kubeVirtClusters, "KubevirtCluster", c.Name, map[string]any{
		"controlPlaneEndpoint":  endpoint,
		"infraClusterSecretRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "name": c.Name + "-provider", "namespace": c.Namespace},
	}))
	c.setStatus(t, kubeVirtClusters, `{"ready":true}`)
	require.NoError(t, c.apply(t.Context(), clusters, "Cluster", c.Name, map[string]any{
		"controlPlaneEndpoint": endpoint,
		"infrastructureRef":    map[string]any{"apiGroup": kubeVirtClusters.Group, "kind": "KubevirtCluster", "name": c.Name},
	}))
	harness.Eventually(t, "the Cluster has its infrastructure", func(ctx context.Context) (bool, error) {
		o, err := c.objects.Resource(clusters).Namespace(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		provisioned, _, err := unstructured.NestedBool(o.Object, "status", "initialization", "infrastructureProvisioned")

		return provisioned, err
	})
	c.setStatus(t, clusters, fmt.Sprintf(`{"initialization":{"controlPlaneInitialized":true},"conditions":[{"type":"ControlPlaneInitialized",
		"status":"True","reason":"Initialized","message":"","lastTransitionTime":%q}]}`, metav1.Now().UTC().Format("2006-01-02T15:04:05Z")))
}

// setStatus merges fields into the status of an object with the shoot's name.
func (c *clusterAPI) setStatus(t *testing.T, resource schema.GroupVersionResource, status string) {
	t.Helper()

	_, err := c.objects.Resource(resource).Namespace(c.Namespace).Patch(t.Context(), c.Name, types.MergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// clusterLabel is the label of all objects of a Cluster.
const clusterLabel = "cluster.x-k8s.io/cluster-name"

// managed marks the KubevirtCluster as managed externally.
const managed = "cluster.x-k8s.io/managed-by"

func (c *clusterAPI) createSecret(ctx context.Context, name, key string, value []byte) error {
	_, err := c.Target.CoreV1().Secrets(c.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterLabel: c.Name}},
		Type:       "cluster.x-k8s.io/secret",
		Data:       map[string][]byte{key: value},
	}, metav1.CreateOptions{})

	return err
}

// apply creates an object of the Cluster.
func (c *clusterAPI) apply(ctx context.Context, resource schema.GroupVersionResource, kind, name string, spec map[string]any) error {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetName(name)
	o.SetLabels(map[string]string{clusterLabel: c.Name})
	o.SetAnnotations(map[string]string{managed: "lab"})

	_, err := c.objects.Resource(resource).Namespace(c.Namespace).Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})

	return err
}

// prepare creates what a machine needs before it is applied: its user data, which a bootstrap provider would create.
func (c *clusterAPI) prepare(ctx context.Context, name string) error {
	return c.createSecret(ctx, name, "value", []byte("#cloud-config\n# "+joinToken+"\n"))
}

// add applies the objects of a machine in a zone.
func (c *clusterAPI) add(ctx context.Context, name, zone string) error {
	err := c.apply(ctx, kubeVirtMachines, "KubevirtMachine", name, map[string]any{
		"virtualMachineTemplate":       map[string]any{"metadata": map[string]any{}, "spec": runtime.DeepCopyJSON(c.template[zone])},
		"virtualMachineBootstrapCheck": map[string]any{"checkStrategy": "none"},
	})
	if err != nil {
		return err
	}

	return c.apply(ctx, clusterMachines, "Machine", name, map[string]any{
		"clusterName":       c.Name,
		"bootstrap":         map[string]any{"dataSecretName": name},
		"infrastructureRef": map[string]any{"apiGroup": kubeVirtMachines.Group, "kind": "KubevirtMachine", "name": name},
	})
}

func (c *clusterAPI) remove(ctx context.Context, name string) error {
	if err := c.Target.CoreV1().Secrets(c.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}

	return c.objects.Resource(clusterMachines).Namespace(c.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// left returns the number of machines.
func (c *clusterAPI) left(ctx context.Context) (int, error) {
	list, err := c.objects.Resource(clusterMachines).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}

	return len(list.Items), nil
}

// seen records when objects of a type first satisfy a condition.
func (c *clusterAPI) seen(t *testing.T, resource schema.GroupVersionResource, holds func(*unstructured.Unstructured) bool) *seen {
	t.Helper()

	return firstSeen(t, c.objects.Resource(resource).Namespace(c.Namespace).Watch, holds)
}

// showsNodeReady reports whether a Machine shows that its Node is ready, as those of machine-controller-manager do in the
// phase Running. In that of Cluster API, the Node may not be ready.
func showsNodeReady(o *unstructured.Unstructured) bool {
	return hasCondition(o, func(c map[string]any) bool { return c["type"] == "NodeReady" && c["status"] == "True" })
}

// showsUnschedulable reports whether a KubevirtMachine shows the reason of the scheduler.
func showsUnschedulable(o *unstructured.Unstructured) bool {
	return hasCondition(o, func(c map[string]any) bool { return c["reason"] == "Unschedulable" })
}

func hasCondition(o *unstructured.Unstructured, holds func(map[string]any) bool) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")

	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)

		return ok && holds(condition)
	})
}
