// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// checkNamespace checks that the namespace of the machines exists and is their own. Without permission to read
// it, the dry run shows whether it exists.
func checkNamespace(ctx context.Context, r *reader, _ *scope) []Result {
	name := r.namespace()
	s := r.about("Namespace " + name)

	switch name {
	case metav1.NamespaceDefault:
		return s.warn("is the default namespace: machines would share it with unrelated objects",
			"set another namespace in the current context of the kubeconfig: kubectl config set-context --current --namespace=…")
	case metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease:
		return s.fail("is reserved for Kubernetes", "set another namespace in the current context of the kubeconfig")
	}

	found, err := r.object(ctx, &reference{kind: kindNamespace, name: name})

	switch {
	case providerapi.Absent(err):
		return s.fail("does not exist", "correct the namespace in the current context of the kubeconfig, or create it: "+kubectl("create namespace", name))
	case err == nil && found.GetDeletionTimestamp() != nil:
		return s.fail("is being deleted", "set another namespace in the current context of the kubeconfig, or wait and create it again: "+
			kubectl("create namespace", name))
	case err == nil, errors.Is(providerapi.Explain(err), spi.ErrForbidden):
		return s.ok("is the namespace of the machines")
	default:
		return s.notChecked(err, kubectl("get namespace", name))
	}
}
