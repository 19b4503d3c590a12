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
func (s *shoot) reconcileNamespace(ctx context.Context) error {
	if !s.createsNamespace() {
		return nil
	}

	existing := &corev1.Namespace{}

	switch err := s.provider.Get(ctx, client.ObjectKey{Name: s.namespace}, existing); {
	case apierrors.IsNotFound(err):
		if err := s.record(ctx); err != nil {
			return err
		}

		err = s.provider.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: s.namespaceLabels()}})

		return wrap(err, "create Namespace %s", s.namespace)
	case err != nil:
		return fmt.Errorf("get Namespace %s: %w", s.namespace, err)
	case existing.DeletionTimestamp != nil:
		return fmt.Errorf("the Namespace %s is being deleted", s.namespace)
	default:
		return s.owner.Check("Namespace "+s.namespace, existing)
	}
}

// namespaceLabels are the labels of the shoot's namespace: those of its owner, and the level that KubeVirt's and
// CDI's pods need (kubernetes/provider-namespace).
func (s *shoot) namespaceLabels() map[string]string {
	labels := s.owner.Labels()
	labels["pod-security.kubernetes.io/enforce"] = "baseline"

	return labels
}

// deleteNamespace deletes the namespace of the shoot, and waits until it is gone: the next
// reconciliation continues.
func (s *shoot) deleteNamespace(ctx context.Context) error {
	if !s.createsNamespace() {
		return nil
	}

	existing := &corev1.Namespace{}

	switch err := s.provider.Get(ctx, client.ObjectKey{Name: s.namespace}, existing); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Namespace %s: %w", s.namespace, err)
	}

	if err := s.owner.Check("Namespace "+s.namespace, existing); err != nil {
		return err
	}

	if existing.DeletionTimestamp == nil {
		if err := s.provider.Delete(ctx, existing, client.Preconditions{UID: &existing.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Namespace %s: %w", s.namespace, err)
		}
	}

	return fmt.Errorf("the Namespace %s is being deleted", s.namespace)
}

// wrap adds the operation to an error.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
