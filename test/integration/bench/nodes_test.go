// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	controller "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecontroller"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joinedNode returns a Node of a Gardener shoot, as it is after its kubelet, the cloud controller and
// machine-controller-manager have written it. It has about 15 KB, most of it the names of images.
func joinedNode(name string, since time.Time) (*corev1.Node, error) {
	template := nodeTemplate()

	// machine-controller-manager compares it with the Machine, and updates the Node if they differ.
	applied, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}

	labels := maps.Clone(template.Labels)
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:           name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
		"beta.kubernetes.io/os":        "linux",
		"beta.kubernetes.io/arch":      "amd64",
		corev1.LabelInstanceTypeStable: "local-medium",
		corev1.LabelTopologyRegion:     "local",
		corev1.LabelTopologyZone:       "zone-a",
		machineutils.MachineLabelKey:   name,
	})

	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:       name,
			Finalizers: []string{controller.NodeFinalizerName},
			Labels:     labels,
			Annotations: map[string]string{
				machineutils.LastAppliedALTAnnotation:                    string(applied),
				"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf("{%q:%q}", "csi.kubevirt.io", "shoot--example--local/"+name),
				"node.alpha.kubernetes.io/ttl":                           "0",
				"projectcalico.org/IPv4Address":                          "10.250.0.10/16",
				"projectcalico.org/IPv4IPIPTunnelAddr":                   "100.64.0.1",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		Spec:   corev1.NodeSpec{ProviderID: nodeProviderID(name)},
		Status: nodeStatus(name, since),
	}, nil
}

func nodeProviderID(name string) string { return "kubevirt://" + name }

// nodeTemplate returns what Gardener wants the Nodes of a worker pool to have.
func nodeTemplate() v1alpha1.NodeTemplateSpec {
	return v1alpha1.NodeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"kubernetes.io/role":                                  "node",
		"node.kubernetes.io/role":                             "node",
		"networking.gardener.cloud/node-local-dns-enabled":    "false",
		"worker.garden.sapcloud.io/group":                     "worker",
		"worker.gardener.cloud/cri-name":                      "containerd",
		"worker.gardener.cloud/gardener-node-agent-secret":    "gardener-node-agent-worker-77ac3",
		"worker.gardener.cloud/image-name":                    "gardenlinux",
		"worker.gardener.cloud/image-version":                 "1592.3.0",
		"worker.gardener.cloud/kubernetes-version":            "1.34.3",
		"worker.gardener.cloud/pool":                          "worker",
		"worker.gardener.cloud/system-components":             "true",
		"worker.gardener.cloud/operatingsystemconfig-version": "2",
	}}}
}

func nodeStatus(name string, since time.Time) corev1.NodeStatus {
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:32]
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("16384256Ki"),
		corev1.ResourceEphemeralStorage: resource.MustParse("51474024Ki"),
		corev1.ResourcePods:             resource.MustParse("110"),
		"hugepages-1Gi":                 resource.MustParse("0"),
		"hugepages-2Mi":                 resource.MustParse("0"),
	}

	return corev1.NodeStatus{
		Capacity:        capacity,
		Allocatable:     capacity,
		Conditions:      nodeConditions(since),
		Addresses:       nodeAddresses(name),
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		Images:          nodeImages(),
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               id,
			SystemUUID:              id,
			BootID:                  id,
			KernelVersion:           "6.12.40-cloud-amd64",
			OSImage:                 "Garden Linux 1592.3.0",
			ContainerRuntimeVersion: "containerd://2.1.3",
			KubeletVersion:          "v1.34.3",
			OperatingSystem:         "linux",
			Architecture:            "amd64",
		},
	}
}

func nodeAddresses(name string) []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.250.0.10"},
		{Type: corev1.NodeHostName, Address: name},
	}
}

// nodeImages returns as many images as a kubelet reports at most, each with its digest and its tag.
func nodeImages() []corev1.ContainerImage {
	var images []corev1.ContainerImage

	for i := range fifty {
		repository := fmt.Sprintf("registry.example.com/gardener-project/releases/gardener/image-%d", i)
		images = append(images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s@sha256:%x", repository, sha256.Sum256([]byte(repository))), repository + ":v1.34.3"},
			SizeBytes: 123456789,
		})
	}

	return images
}

// nodeConditions returns the conditions of a healthy Node, which machine-controller-manager copies to its Machine.
func nodeConditions(since time.Time) []corev1.NodeCondition {
	return append(kubeletConditions(since, since), reportedAt(since, since, corev1.NodeCondition{
		Type:    corev1.NodeNetworkUnavailable,
		Status:  corev1.ConditionFalse,
		Reason:  "CalicoIsUp",
		Message: "Calico is running on this node",
	})...)
}

// kubeletConditions returns those conditions that the kubelet reports, with the time of the report.
func kubeletConditions(since, reported time.Time) []corev1.NodeCondition {
	return reportedAt(since, reported,
		corev1.NodeCondition{
			Type:    corev1.NodeMemoryPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available",
		},
		corev1.NodeCondition{
			Type:    corev1.NodeDiskPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure",
		},
		corev1.NodeCondition{
			Type:    corev1.NodePIDPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available",
		},
		corev1.NodeCondition{
			Type:    corev1.NodeReady,
			Status:  corev1.ConditionTrue,
			Reason:  "KubeletReady",
			Message: "kubelet is posting ready status",
		},
	)
}

func reportedAt(since, reported time.Time, conditions ...corev1.NodeCondition) []corev1.NodeCondition {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(since)
		conditions[i].LastHeartbeatTime = metav1.NewTime(reported)
	}

	return conditions
}
