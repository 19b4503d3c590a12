// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// csiDriverNode is the account of the driver's pods on the Nodes.
const csiDriverNode = "csi-driver-node"

// registerNodes does what KubeVirt's CSI driver and node-driver-registrar do on the Nodes of a shoot: the driver reads
// its Node and derives the ID of the machine (cmd/kubevirt-csi-driver, resolveNodeID), with which kubelet writes
// the CSINode. Neither of their modules is served.
func (s *Seed) registerNodes(ctx context.Context, namespace string) error {
	nodes := &corev1.NodeList{}
	if err := s.Target.List(ctx, nodes); err != nil {
		return err
	}

	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !strings.HasPrefix(node.Name, namespace+"-") || node.DeletionTimestamp != nil {
			continue
		}

		if err := s.registerNode(ctx, node); err != nil {
			return fmt.Errorf("register Node %s: %w", node.Name, err)
		}
	}

	return nil
}

func (s *Seed) registerNode(ctx context.Context, node *corev1.Node) error {
	registered := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := s.Target.Get(ctx, client.ObjectKeyFromObject(registered), registered); client.IgnoreNotFound(err) != nil || err == nil {
		return err
	}

	account, err := s.shootAccount(ctx, csiDriverNode)
	if err != nil || account == nil {
		return err
	}

	if err := account.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return client.IgnoreNotFound(err)
	}

	machine, isMachine := strings.CutPrefix(node.Spec.ProviderID, "kubevirt://")
	in := node.Annotations["cluster.x-k8s.io/cluster-namespace"]

	if !isMachine || in == "" {
		return nil // The driver exits, and is started again.
	}

	registered.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	registered.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "csi.kubevirt.io", NodeID: in + "/" + machine}}

	return client.IgnoreAlreadyExists(s.Target.Create(ctx, registered))
}

// shootAccount returns a client for the shoot with a ServiceAccount of its own; nil if the account does not exist yet.
func (s *Seed) shootAccount(ctx context.Context, name string) (client.Client, error) {
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}

	if err := s.Target.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, client.IgnoreNotFound(err)
	}

	config := rest.AnonymousClientConfig(s.targetConfig)
	config.BearerToken = request.Status.Token

	return client.New(config, client.Options{Scheme: s.Target.Scheme(), Mapper: s.Target.RESTMapper()})
}
