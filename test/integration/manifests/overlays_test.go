// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
)

// overlays is a folder with the shipped manifests, adapted to a shoot's namespaces.
type overlays string

// unpack adapts the manifests as their documentation requires: it sets the namespaces, that of the
// control cluster with the documented command.
func unpack(t *testing.T, s *harness.Shoot) overlays {
	t.Helper()

	repository := t.TempDir()
	folder := filepath.Join(repository, "kubernetes")
	names := strings.NewReplacer("shoot-machines", s.ProviderNamespace)

	require.NoError(t, fs.WalkDir(manifests.Manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(folder, path), 0o700)
		}

		raw, err := manifests.Manifests.ReadFile(path)
		require.NoError(t, err)

		return os.WriteFile(filepath.Join(folder, path), []byte(names.Replace(string(raw))), 0o600)
	}))

	told, err := manifests.Manifests.ReadFile("standalone/kustomization.yaml")
	require.NoError(t, err)

	found := regexp.MustCompile(`(?m)^#   (grep .*)$`).FindStringSubmatch(string(told))
	require.NotNil(t, found)

	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Replace(found[1], "my-namespace", s.Namespace, 1))
	command.Dir = repository
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))

	return overlays(folder)
}

func (o overlays) path(overlay string) string { return filepath.Join(string(o), overlay) }

// kubectl runs a command as a cluster's administrator, and returns its output.
func (o overlays) kubectl(t *testing.T, cluster *controlplane.Cluster, args ...string) string {
	t.Helper()

	command := exec.CommandContext(context.WithoutCancel(t.Context()), harness.Lab().Binaries.Kubectl, append(args, "--cache-dir="+o.path("cache"))...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.AdminKubeconfig)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))

	return string(out)
}

// TestOverlaysAreAccepted validates each overlay strictly with the API servers. Other tests apply
// the overlays that have an effect.
func TestOverlaysAreAccepted(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	files := unpack(t, s)

	// A dry run does not create the namespaces of its objects.
	for _, name := range []string{"machine-images", "mcm-kubevirt"} {
		_, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	judged := map[string]bool{}

	for cluster, names := range map[*controlplane.Cluster][]string{
		harness.Lab().Control: {"control-namespace", "target", "standalone", "standalone-separate-target", "evacuation/control-namespace"},
		harness.Lab().Provider: {
			"provider-cluster", "provider-namespace", "provider-namespace-without-golden-images", "evacuation/provider-namespace",
			"shared-image", "grpc-driver", "diagnose",
		},
	} {
		for _, name := range names {
			files.kubectl(t, cluster, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-k", files.path(name))

			judged[name] = true
		}
	}

	// Parts of other overlays.
	judged["base"] = true
	judged["gardener-sidecar"] = true

	require.NoError(t, fs.WalkDir(manifests.Manifests, ".", func(path string, _ fs.DirEntry, err error) error {
		// The lab has no prometheus-operator. Separate tests validate its manifests.
		if filepath.Base(path) == "kustomization.yaml" && !strings.HasPrefix(path, "monitoring/") {
			require.True(t, judged[filepath.Dir(path)], path)
		}

		return err
	}))
}

// TestShippedProviderNamespace creates a machine under all manifests for the
// administrator, including the quota.
func TestShippedProviderNamespace(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	files := unpack(t, s)
	files.kubectl(t, harness.Lab().Provider, "apply", "--server-side", "--force-conflicts", "--validate=strict", "-k", files.path("provider-namespace"))
	requireOwnFlow(t, s, files)

	harness.Eventually(t, "the quota is in force", func(ctx context.Context) (bool, error) {
		quota, err := s.Kube.CoreV1().ResourceQuotas(s.ProviderNamespace).Get(ctx, "machines", metav1.GetOptions{})

		return err == nil && len(quota.Status.Hard) == len(quota.Spec.Hard), err
	})

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// requireOwnFlow requires that the API server distinguishes the driver's requests from others.
func requireOwnFlow(t *testing.T, s *harness.Shoot, files overlays) {
	t.Helper()

	raw, err := os.ReadFile(files.path("provider-cluster/flowschema.yaml"))
	require.NoError(t, err)

	_, document, found := strings.Cut(string(raw), "\n---\n")
	require.True(t, found)

	flow := &flowcontrolv1.FlowSchema{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), flow))

	flow.Name = s.Name // The lab already has the shipped one, for another namespace.
	flow, err = s.Kube.FlowcontrolV1().FlowSchemas().Create(t.Context(), flow, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Kube.FlowcontrolV1().FlowSchemas().Delete(context.WithoutCancel(t.Context()), s.Name, metav1.DeleteOptions{}))
	})

	config, err := clientcmd.RESTConfigFromKubeConfig(s.ProviderKubeconfig)
	require.NoError(t, err)

	var served string

	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				served = resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
			}

			return resp, err
		})
	})

	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	harness.Eventually(t, "the driver's requests have their own FlowSchema", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(s.ProviderNamespace).List(ctx, metav1.ListOptions{Limit: 1})

		return served == string(flow.UID), err
	})
}

// TestWithoutGoldenImages compares the two Roles available to an administrator, and creates a
// machine under the smaller one.
func TestWithoutGoldenImages(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	files := unpack(t, s)

	roleOf := func(overlay string) []rbacv1.PolicyRule {
		var role rbacv1.Role

		for document := range strings.SplitSeq(files.kubectl(t, harness.Lab().Provider, "kustomize", files.path(overlay)), "\n---\n") {
			if strings.Contains(document, "kind: Role\n") && !strings.Contains(document, "kind: RoleBinding") {
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &role))
			}
		}

		return role.Rules
	}

	with := roleOf("provider-namespace")
	without := roleOf("provider-namespace-without-golden-images")
	require.Len(t, without, len(with)-1)
	require.Subset(t, with, without)
	require.NotContains(t, without, rbacv1.PolicyRule{
		APIGroups: []string{"cdi.kubevirt.io"},
		Resources: []string{"datavolumes"},
		Verbs:     []string{"create", "delete"},
	})

	s.ExpectDenials("the driver may not make golden images")
	files.kubectl(t, harness.Lab().Provider, "apply", "--server-side", "--force-conflicts", "-k", files.path("provider-namespace-without-golden-images"))
	s.DriverRight("create", "cdi.kubevirt.io", "datavolumes").Await(t, false)

	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.Equal(t, codes.PermissionDenied, harness.CodeOf(err))
	require.ErrorContains(t, err, "disablePreAllocatedDataVolumes")

	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, `{"disablePreAllocatedDataVolumes":true}`)
	_, err = m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// gardenersOwn is the part of gardenlet's Deployment that is relevant for the sidecar.
const gardenersOwn = `apiVersion: apps/v1
kind: Deployment
metadata: {name: machine-controller-manager}
spec:
  selector: {matchLabels: {app: kubernetes, role: machine-controller-manager}}
  template:
    metadata: {labels: {app: kubernetes, role: machine-controller-manager}}
    spec:
      serviceAccountName: machine-controller-manager
      containers:
        - name: machine-controller-manager
          image: machine-controller-manager
          command: [./machine-controller-manager]
          volumeMounts: [{name: kubeconfig, mountPath: /var/run/secrets/gardener.cloud/shoot/generic-kubeconfig, readOnly: true}]
      volumes:
        - name: kubeconfig
          secret: {secretName: generic-token-kubeconfig}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: machine-controller-manager-vpa}
spec:
  resourcePolicy: {containerPolicies: [{containerName: machine-controller-manager}]}
`

// TestShippedGardenerSidecar adds the sidecar to a Deployment like gardenlet's, and runs it with
// the resulting arguments.
func TestShippedGardenerSidecar(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	files := unpack(t, s)
	require.NoError(t, os.Mkdir(files.path("gardener"), 0o700))
	require.NoError(t, os.WriteFile(files.path("gardener/own.yaml"), []byte(gardenersOwn), 0o600))
	require.NoError(t, os.WriteFile(files.path("gardener/kustomization.yaml"),
		[]byte("namespace: "+s.Namespace+"\nresources: [own.yaml]\ncomponents: [../gardener-sidecar]\n"), 0o600))

	made := map[string]string{}

	for document := range strings.SplitSeq(files.kubectl(t, harness.Lab().Control, "kustomize", files.path("gardener")), "\n---\n") {
		var kind metav1.TypeMeta

		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		made[kind.Kind] = document
	}

	deployment := harness.CreateManifest(t, []byte(made["Deployment"]), func(ctx context.Context, d *appsv1.Deployment, o metav1.CreateOptions) (*appsv1.Deployment, error) {
		return s.Target.AppsV1().Deployments(s.Namespace).Create(ctx, d, o)
	})

	containers := deployment.Spec.Template.Spec.Containers
	require.Len(t, containers, 2)

	const name = "machine-controller-manager-provider-kubevirt"

	added := containers[0]
	if added.Name != name {
		added = containers[1]
	}

	require.Equal(t, name, added.Name)
	require.Equal(t, []corev1.ContainerPort{{Name: "providermetrics", ContainerPort: 10259, Protocol: corev1.ProtocolTCP}}, added.Ports)
	require.Contains(t, made["VerticalPodAutoscaler"], "- containerName: "+name+"\n      controlledValues: RequestsOnly")

	p, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar(), shippedArgs(t, s, &added, s.SidecarKubeconfig)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) })
	requireProbed(t, &added, p)
}
