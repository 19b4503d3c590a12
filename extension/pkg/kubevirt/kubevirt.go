// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubevirt has the names of the extension that several of its parts use. It must not import
// one of them.
package kubevirt

const (
	// Type is the provider type in Shoots, CloudProfiles and extension resources.
	Type = "kubevirt"
	// Name is the name of the extension.
	Name = "provider-kubevirt"

	// LabelShoot is the label of the networks, NetworkPolicies and namespaces that the extension
	// creates in a provider cluster, with the technical ID of the shoot. The extension changes and
	// deletes only objects with this label.
	LabelShoot = "kubevirt.provider.extensions.gardener.cloud/cluster"

	// LabelBastion is the label of the objects of a bastion, with their name, in addition to LabelShoot.
	LabelBastion = "kubevirt.provider.extensions.gardener.cloud/bastion"

	// AnnotationNamespace is the annotation of a Node with the namespace of its VirtualMachine.
	// KubeVirt's CSI driver does not start on a Node without it (pkg/service/node.go).
	AnnotationNamespace = "cluster.x-k8s.io/cluster-namespace"
)

// The Deployments of a ControlPlane.
const (
	// CloudControllerManagerName is the name of cloud-controller-manager.
	CloudControllerManagerName = "cloud-controller-manager"
	// CSIControllerName is the name of the controller of KubeVirt's CSI driver, with its sidecars.
	CSIControllerName = "csi-driver-controller"
	// CSISnapshotControllerName is the name of Kubernetes' snapshot controller.
	CSISnapshotControllerName = "csi-snapshot-controller"
)
