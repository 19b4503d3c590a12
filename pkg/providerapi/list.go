package providerapi

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

const (
	// MaxObjects bounds the objects in a list. A partial list is never used.
	MaxObjects = pages.MaxObjects
	// MaxPages bounds the pages of a list with the default page size.
	MaxPages = pages.MaxPages
)

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

// Some reads the first page of a list and returns at most the given number of objects. It
// is meant for kinds with few objects. It sends one request, whose duration the caller
// limits; its errors are those of Once.
func Some[O any, L runtime.Object](ctx context.Context, from Lister[L], list List, most int64) ([]O, error) {
	ctx, slot := transport.WithReadSlot(ctx)
	defer slot.Release()

	page, err := from.List(ctx, metav1.ListOptions{LabelSelector: list.Labels, FieldSelector: list.Fields, Limit: most})
	if err != nil {
		return nil, err
	}

	var some []O

	err = meta.EachListItem(page, func(object runtime.Object) error {
		if item, ok := any(object).(*O); ok && int64(len(some)) < most {
			some = append(some, *item)
		}

		return nil
	})

	return some, err
}
