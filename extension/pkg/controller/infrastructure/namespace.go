// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reconcileNamespace creates the namespace of the shoot, if the shoot has one of its own. It adds no labels to an
// existing one: an account that may update namespaces could change their level of pod security.
func (f *flow) reconcileNamespace(ctx context.Context) error {
	if !f.createsNamespace() {
		return nil
	}

	existing := &corev1.Namespace{}

	switch err := f.provider.Get(ctx, client.ObjectKey{Name: f.namespace}, existing); {
	case apierrors.IsNotFound(err):
		if err := f.record(ctx); err != nil {
			return err
		}

		err = f.provider.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace, Labels: f.namespaceLabels()}})

		return wrap(err, "create Namespace %s", f.namespace)
	case err != nil:
		return fmt.Errorf("get Namespace %s: %w", f.namespace, err)
	case existing.DeletionTimestamp != nil:
		return fmt.Errorf("the Namespace %s is being deleted", f.namespace)
	default:
		return f.owner.Check("Namespace "+f.namespace, existing)
	}
}

// namespaceLabels are the labels of the shoot's namespace: those of its owner, and the level that KubeVirt's and
// CDI's pods need (kubernetes/provider-namespace).
func (f *flow) namespaceLabels() map[string]string {
	labels := f.owner.Labels()
	labels["pod-security.kubernetes.io/enforce"] = "baseline"

	return labels
}

// deleteNamespace deletes the namespace of the shoot, and waits until it is gone: the next
// reconciliation continues.
func (f *flow) deleteNamespace(ctx context.Context) error {
	if !f.createsNamespace() {
		return nil
	}

	existing := &corev1.Namespace{}

	switch err := f.provider.Get(ctx, client.ObjectKey{Name: f.namespace}, existing); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Namespace %s: %w", f.namespace, err)
	}

	if err := f.owner.Check("Namespace "+f.namespace, existing); err != nil {
		return err
	}

	if existing.DeletionTimestamp == nil {
		if err := f.provider.Delete(ctx, existing, client.Preconditions{UID: &existing.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Namespace %s: %w", f.namespace, err)
		}
	}

	return fmt.Errorf("the Namespace %s is being deleted", f.namespace)
}

// wrap adds the operation to an error.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
