// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// existence reads an object that a class refers to, and returns whether it exists. The object is nil if it cannot
// be read.
func existence(ctx context.Context, r *reader, of *reference) (metav1.Object, []Result) {
	s := r.about(of.subject())
	list := kubectl("get " + of.kind.kubectl())
	if of.namespace != "" {
		list = kubectlIn(of.namespace, "get "+of.kind.kubectl())
	}

	found, err := r.object(ctx, of)

	switch {
	case err == nil:
		return found, s.ok("exists")
	case unknownType(err):
		return nil, s.fail("the provider cluster has no resource "+of.kind.kubectl(), "install the component that provides it, or remove "+of.field)
	case providerapi.Absent(err) && missesNamespace(ctx, r, of.namespace):
		return nil, s.fail("Namespace "+of.namespace+" does not exist", "correct the namespace beside "+of.field+", or create it: kubectl get namespaces")
	case providerapi.Absent(err):
		return nil, s.fail("does not exist", "create it, or change "+of.field+" to an existing one: "+list)
	default:
		return nil, s.notChecked(err, list+" "+quoted(of.name))
	}
}

// missesNamespace reports whether the namespace of a reference is known not to exist. The check of the namespace
// reports that of the machines.
func missesNamespace(ctx context.Context, r *reader, name string) bool {
	if name == "" || name == r.namespace() {
		return false
	}

	_, err := r.object(ctx, &reference{kind: kindNamespace, name: name})

	return providerapi.Absent(err)
}
