// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// MaxObjects bounds the objects in a list. A partial list is never used.
const MaxObjects = pages.MaxObjects

// ErrListTooLarge is the error for a list that exceeds its bounds. Errors that wrap it also wrap
// spi.ErrUnavailable.
var ErrListTooLarge = pages.ErrTooLarge

// Lister is a typed client that lists one kind of object.
type Lister[L runtime.Object] = pages.Lister[L]

// List describes the objects to list.
type List = pages.List

// Collect is pages.Collect, except that failures are retried as in Objects, unless the list exceeds
// its bounds, and that no part of a list is returned.
func Collect[L runtime.Object, O, T any](
	ctx context.Context, c *Clients, from Lister[L], list List, keep func(O) (kept T, ok bool),
) ([]T, error) {
	all, err := repeat(ctx, c, "list "+list.Description, transport.RequestTimeout, func(ctx context.Context) ([]T, error) {
		return pages.Collect(ctx, from, list, keep)
	})
	if err != nil {
		return nil, err
	}

	return all, nil
}

// Some reads the first objects of a list, at most the given number. It is meant for kinds with few
// objects. The caller limits its duration; its errors are those of Once, and the objects before an error
// are returned.
func Some[O any, L runtime.Object](ctx context.Context, from Lister[L], list List, most int) ([]O, error) {
	list.PerPage = int64(most)
	list.Most = most

	return pages.Collect(ctx, from, list, func(object *O) (O, bool) { return *object, true })
}

// deletionTime is the time within which a deleted claim or DataVolume should be gone: the deletion of a
// machine waits at most five minutes for its VirtualMachine.
const deletionTime = 10 * time.Minute

// Leftovers returns the names, deletion times and finalizers of the objects of a kind, in the namespace of the
// kubeconfig, that should have been gone for minutes, beginning with the first to be deleted. labels select the
// objects; its errors are those of Collect.
func Leftovers(ctx context.Context, c *Clients, of schema.GroupVersionResource, labels string, now time.Time) ([]metav1.ObjectMeta, error) {
	left, err := Collect(ctx, c, c.Metadata.Resource(of).Namespace(c.Namespace), List{Description: of.Resource + " in " + c.Namespace, Labels: labels},
		func(o metav1.Object) (metav1.ObjectMeta, bool) {
			at := o.GetDeletionTimestamp()

			return metav1.ObjectMeta{Namespace: c.Namespace, Name: o.GetName(), DeletionTimestamp: at, Finalizers: o.GetFinalizers()},
				at != nil && now.Sub(at.Time) >= deletionTime
		})

	slices.SortFunc(left, func(a, b metav1.ObjectMeta) int { return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time) })

	return left, err
}
