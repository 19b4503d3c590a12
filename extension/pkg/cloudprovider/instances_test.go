// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	provider "k8s.io/cloud-provider"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

func (w *world) instances() *instances {
	return &instances{provider: providercluster.ProgramOf(w.client, namespace), clusterName: clusterName, topology: true}
}

func node(providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func machine(cluster string) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"},
		Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelCluster: cluster}},
		}},
	}
}

// TestInstances_Exists is the table of machines: shut down is not deleted.
func TestInstances_Exists(t *testing.T) {
	t.Parallel()

	stopped := instance("m")
	stopped.Status.Phase = kubevirtv1.Succeeded

	for name, tc := range map[string]struct {
		objects          []client.Object
		exists, shutdown bool
		err              string
	}{
		"running":                    {[]client.Object{machine(clusterName), instance("m")}, true, false, ""},
		"shut down":                  {[]client.Object{machine(clusterName), stopped}, true, true, ""},
		"shut down, instance gone":   {[]client.Object{machine(clusterName)}, true, true, ""},
		"instance without a machine": {[]client.Object{instance("m")}, true, false, ""},
		"gone":                       {nil, false, true, ""},
		"of another cluster":         {[]client.Object{machine("shoot--dev--b")}, false, true, "belongs to another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			i := newWorld(t, nil, tc.objects...).instances()

			for _, id := range []string{"kubevirt://m", ""} {
				exists, err := i.InstanceExists(t.Context(), node(id))
				require.Equal(t, tc.exists, exists)

				if tc.err != "" {
					require.ErrorContains(t, err, tc.err)

					continue
				}

				require.NoError(t, err)

				shutdown, err := i.InstanceShutdown(t.Context(), node(id))
				require.NoError(t, err)
				require.Equal(t, tc.shutdown, shutdown)
			}
		})
	}
}

// TestInstances_Unanswered removes no Node unless the API server says that its machine does not exist.
func TestInstances_Unanswered(t *testing.T) {
	t.Parallel()

	group := schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}

	for name, err := range map[string]error{
		"no connection":        errors.New("connection refused"),
		"no permission":        apierrors.NewForbidden(group, "m", errors.New("no")),
		"no KubeVirt":          apierrors.NewGenericServerResponse(http.StatusNotFound, "get", group, "", "404 page not found", 0, true),
		"404 of another":       &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}},
		"404 of another name":  apierrors.NewNotFound(group, "n"),
		"too many requests":    apierrors.NewTooManyRequests("later", 1),
		"unauthorized":         apierrors.NewUnauthorized("no"),
		"internal error":       apierrors.NewInternalError(errors.New("x")),
		"the server is closed": apierrors.NewServiceUnavailable("x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newWorld(t, nil)
			w.fails = func(string) error { return err }
			i := w.instances()

			exists, failed := i.InstanceExists(t.Context(), node("kubevirt://m"))
			require.Error(t, failed)
			require.False(t, exists)

			_, failed = i.InstanceShutdown(t.Context(), node("kubevirt://m"))
			require.Error(t, failed)

			_, failed = i.InstanceMetadata(t.Context(), node("kubevirt://m"))
			require.NotErrorIs(t, failed, provider.InstanceNotFound)
		})
	}
}

// TestInstances_Metadata describes a machine with several networks of both families.
func TestInstances_Metadata(t *testing.T) {
	t.Parallel()

	vmi := instance("m")
	vmi.Annotations = map[string]string{kubevirtv1.ClusterInstancetypeAnnotation: "u1.medium"}
	vmi.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: "net0"}, {Name: "default"}}
	vmi.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyRegion, Operator: corev1.NodeSelectorOpIn, Values: []string{"r"}},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}},
		}}},
	}}}
	vmi.Status.Interfaces = []kubevirtv1.VirtualMachineInstanceNetworkInterface{
		{Name: "net0", IP: "192.168.0.5", IPs: []string{"192.168.0.5", "fe80::1"}},
		{Name: "", IP: "172.17.0.1", IPs: []string{"172.17.0.1"}},
		{Name: "default", IP: "10.1.0.5", IPs: []string{"10.1.0.5", "fd00::5", "not an address"}},
	}

	metadata, err := newWorld(t, nil, vmi).instances().InstanceMetadata(t.Context(), node(""))
	require.NoError(t, err)
	require.Equal(t, &provider.InstanceMetadata{
		ProviderID: "kubevirt://m", InstanceType: "u1.medium", Zone: "z", Region: "r",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.1.0.5"},
			{Type: corev1.NodeInternalIP, Address: "fd00::5"},
			{Type: corev1.NodeInternalIP, Address: "192.168.0.5"},
		},
	}, metadata)

	restarted := node("kubevirt://m")
	restarted.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "m"}, {Type: corev1.NodeInternalIP, Address: "10.1.0.5"}}

	metadata, err = newWorld(t, nil, instance("m")).instances().InstanceMetadata(t.Context(), restarted)
	require.NoError(t, err)
	require.Equal(t, restarted.Status.Addresses[1:], metadata.NodeAddresses, "a starting machine keeps its addresses")

	_, err = newWorld(t, nil, instance("m")).instances().InstanceMetadata(t.Context(), node(""))
	require.ErrorContains(t, err, "has not reported an address yet", "the Node would remain without one for minutes")

	_, err = newWorld(t, nil).instances().InstanceMetadata(t.Context(), node(""))
	require.ErrorIs(t, err, provider.InstanceNotFound)

	foreign := instance("other")
	foreign.Labels[labelCluster] = "shoot--dev--b"
	labelled := node("")
	labelled.Labels = map[string]string{labelInstance: "other"}

	_, err = newWorld(t, nil, foreign).instances().InstanceMetadata(t.Context(), labelled)
	require.ErrorContains(t, err, "belongs to another cluster")
}

// TestInstances_Requests sends one request for each question of Kubernetes' controllers.
func TestInstances_Requests(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil, machine(clusterName), instance("m"))
	i := w.instances()
	initialized := node("kubevirt://m")
	initialized.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.0.5"}}

	_, err := i.InstanceMetadata(t.Context(), initialized)
	require.NoError(t, err)
	require.Equal(t, []string{"get v1.VirtualMachineInstance"}, w.sent(), "every --node-status-update-frequency")

	_, err = i.InstanceExists(t.Context(), initialized)
	require.NoError(t, err)

	_, err = i.InstanceShutdown(t.Context(), initialized)
	require.NoError(t, err)
	require.Equal(t, []string{"get v1.VirtualMachine", "get v1.VirtualMachineInstance"}, w.sent(), "every --node-monitor-period, while it is not ready")
}

// TestInstances_Unlabelled reads no machines without the label where all machines have it: others of the namespace
// belong to its operator.
func TestInstances_Unlabelled(t *testing.T) {
	t.Parallel()

	vmi := instance("m")
	delete(vmi.Labels, labelCluster)
	vmi.Status.Interfaces = []kubevirtv1.VirtualMachineInstanceNetworkInterface{{Name: "default", IP: "10.1.0.5"}}

	for _, required := range []bool{true, false} {
		config := &Config{}
		if required {
			config.InfraLabels = map[string]string{"owner": "a"}
		}

		i := newInstances(config, clusterName, newWorld(t, nil, vmi.DeepCopy()).provider)
		_, err := i.InstanceMetadata(t.Context(), node(""))
		require.Equal(t, required, err != nil, err)
	}
}

// TestInstances_LongType leaves out what no label of a Node can have.
func TestInstances_LongType(t *testing.T) {
	t.Parallel()

	vmi := instance("m")
	vmi.Annotations = map[string]string{kubevirtv1.InstancetypeAnnotation: strings.Repeat("t", 64)}
	vmi.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a/b", corev1.LabelTopologyRegion: "r"}
	vmi.Status.Interfaces = []kubevirtv1.VirtualMachineInstanceNetworkInterface{{Name: "default", IP: "10.1.0.5"}}

	metadata, err := newWorld(t, nil, vmi).instances().InstanceMetadata(t.Context(), node(""))
	require.NoError(t, err)
	require.Empty(t, metadata.InstanceType)
	require.Empty(t, metadata.Zone)
	require.Equal(t, "r", metadata.Region)
}

// TestAppendAddresses has only addresses of other Nodes' traffic, and not too many.
func TestAppendAddresses(t *testing.T) {
	t.Parallel()

	for _, ip := range []string{"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "127.0.0.1", "::1", "169.254.0.1", "fe80::1", "2001:db8::1%eth0", "x", ""} {
		require.Empty(t, appendAddresses(nil, []string{ip}), ip)
	}

	many := make([]string, 0, 2*maxNodeAddresses)
	for i := range 2 * maxNodeAddresses {
		many = append(many, fmt.Sprintf("10.0.0.%d", i), "10.0.0.0")
	}

	require.Len(t, appendAddresses(nil, many), maxNodeAddresses)
}

// TestRequiredTopology returns a value only if the machine allows no other.
func TestRequiredTopology(t *testing.T) {
	t.Parallel()

	term := func(values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}

	for name, tc := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		"one":           {[]corev1.NodeSelectorTerm{term("a")}, "a"},
		"the same":      {[]corev1.NodeSelectorTerm{term("a"), term("a")}, "a"},
		"alternatives":  {[]corev1.NodeSelectorTerm{term("a"), term("b")}, ""},
		"several":       {[]corev1.NodeSelectorTerm{term("a", "b")}, ""},
		"not all terms": {[]corev1.NodeSelectorTerm{term("a"), {}}, ""},
		"none":          {nil, ""},
	} {
		vmi := instance("m")
		vmi.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tc.terms},
		}}
		require.Equal(t, tc.want, requiredTopology(vmi, "zone"), name)
	}

	vmi := instance("m")
	require.Empty(t, requiredTopology(vmi, "zone"))

	vmi.Spec.NodeSelector = map[string]string{"zone": "s"}
	require.Equal(t, "s", requiredTopology(vmi, "zone"))
}
