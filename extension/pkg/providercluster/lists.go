// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

const (
	// objectsPerPage and metadataPerPage are the numbers of objects per page. Usual objects of a page
	// take less than 1 MiB of memory, so that a page does not wait until those of other provider
	// clusters have been read.
	objectsPerPage, metadataPerPage = 20, 50
	// maxKept bounds the memory of what is kept of a list, in bytes. The names and labels of a thousand
	// machines take half of it.
	maxKept = 2 << 20
)

// Collect reads the objects of a list, which are of type O, page by page, and returns the values that
// keep selects. Nothing else of an object stays in memory. After an error, it returns the values
// before it. The list is the empty list of the kind.
func Collect[O client.Object, T any](
	ctx context.Context, c *Cluster, list client.ObjectList, keep func(O) (kept T, ok bool), options ...client.ListOption,
) ([]T, error) {
	return collect(ctx, c, list, objectsPerPage, keep, options)
}

func collect[O client.Object, T any](
	ctx context.Context, c *Cluster, list client.ObjectList, perPage int64, keep func(O) (kept T, ok bool), options []client.ListOption,
) ([]T, error) {
	description := fmt.Sprintf("%T", list)

	all, err := pages.Collect(ctx, lister{c, list, options}, pages.List{Description: description, PerPage: perPage, MaxKept: maxKept}, keep)
	if errors.Is(err, pages.ErrTooLarge) || errors.Is(err, pages.ErrIdentity) {
		err = nameError(err) // The client has named other errors.
	}

	return all, err
}

// ListMetadata returns the metadata of the objects of a kind that matches selects; nil selects all. Each
// can be passed to Delete.
func (c *Cluster) ListMetadata(
	ctx context.Context, kind schema.GroupVersionKind, matches func(*metav1.PartialObjectMetadata) bool, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))

	return collect(ctx, c, list, metadataPerPage, func(o *metav1.PartialObjectMetadata) (metav1.PartialObjectMetadata, bool) {
		return Metadata(kind, o), matches == nil || matches(o)
	}, options)
}

// Metadata returns the name, the UID and the labels of an object.
func Metadata(kind schema.GroupVersionKind, o metav1.Object) metav1.PartialObjectMetadata {
	m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Labels: o.GetLabels()}}
	m.SetGroupVersionKind(kind)

	return m
}

// Names joins the names of objects for an error, ten at most.
func Names(all []string) string {
	const most = 10

	text := strings.Join(all[:min(len(all), most)], ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}

	return text
}

// lister implements pages.Lister with a client.
type lister struct {
	client.Reader

	empty   client.ObjectList
	options []client.ListOption
}

// List implements pages.Lister. Each page is a list of its own, so that the one before can be
// dropped.
func (l lister) List(ctx context.Context, options metav1.ListOptions) (client.ObjectList, error) {
	page, ok := l.empty.DeepCopyObject().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("list objects: %T is not a list", l.empty)
	}

	all := append([]client.ListOption{client.Limit(options.Limit), client.Continue(options.Continue)}, l.options...)

	return page, l.Reader.List(ctx, page, all...)
}
