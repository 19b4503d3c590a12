// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// applyTimeout bounds the wait until the type of a new CustomResourceDefinition is served.
const applyTimeout = 5 * time.Minute

// Apply creates or updates objects, several at a time. It waits for missing namespaces and types.
func (c *Cluster) Apply(ctx context.Context, objects []unstructured.Unstructured) error {
	return c.apply(ctx, objects)
}

// apply is Apply for objects of the lab itself.
func (c *Cluster) apply(ctx context.Context, objects []unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	const parallel = 8
	return forEach(ctx, parallel, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		if err := applyOne(ctx, resource(client, o), o); err != nil {
			return fmt.Errorf("apply %s %s to cluster %s: %w", o.GetKind(), o.GetName(), c.Name, err)
		}
		return nil
	})
}

// resource returns the client of an object's type. The plurals of all kinds used by the lab are
// regular, so no discovery is needed.
func resource(client dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if namespace := o.GetNamespace(); namespace != "" {
		return client.Resource(plural).Namespace(namespace)
	}
	return client.Resource(plural)
}

func applyOne(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, applyTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = client.Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(last) {
			last = update(ctx, client, o)
		}
		if notYet(last) {
			return false, nil
		}
		return last == nil, last
	})
	if last != nil {
		return last
	}
	return err
}

// notYet reports whether an error is transient: the type is not served yet,
// or an update conflicted.
func notYet(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err)
}

func update(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	existing, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	fresh := o.DeepCopy()
	fresh.SetResourceVersion(existing.GetResourceVersion())
	_, err = client.Update(ctx, fresh, metav1.UpdateOptions{})
	return err
}

// patch merges data into an object created by another component, and waits for it to appear.
func (c *Cluster) patch(ctx context.Context, o *unstructured.Unstructured, data string, subresources ...string) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, applyTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = resource(client, o).Patch(ctx, o.GetName(), types.MergePatchType, []byte(data), metav1.PatchOptions{}, subresources...)
		if notYet(last) {
			return false, nil
		}
		return last == nil, last
	})
	if last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("patch %s %s of cluster %s: %w", o.GetKind(), o.GetName(), c.Name, err)
	}
	return nil
}
