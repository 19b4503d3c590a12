package providerapi

import (
	"context"

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

// Some reads the first objects of a list, at most the given number. It is meant for kinds with few
// objects. The caller limits its duration; its errors are those of Once, and the objects before an error
// are returned.
func Some[O any, L runtime.Object](ctx context.Context, from Lister[L], list List, most int) ([]O, error) {
	list.PerPage, list.Most = int64(most), most

	return pages.Collect(ctx, from, list, func(object *O) (O, bool) { return *object, true })
}
