package providerapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// ErrListTooLarge is the error for a list that exceeds the bounds on objects, pages or bytes. Errors
// that wrap it also wrap spi.ErrUnavailable.
var ErrListTooLarge = errors.New("the list does not end")

// Lister is a typed client that lists one kind of object.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
}

// List describes the objects to list.
type List struct {
	// Description names the objects and their namespace in errors.
	Description string
	// Labels and Fields select the objects; empty for all.
	Labels, Fields string
	// PerPage is the initial number of objects per page; zero means 500. Whole objects with many
	// arrays need smaller pages to stay within the bounds on a response. A page with too many
	// elements is read again with fewer objects.
	PerPage int64
	// MaxBytes bounds the bytes of all pages together; zero means 32 MiB. The bound may be larger
	// if only short parts of the objects are kept.
	MaxBytes int64
}

// Collect reads all pages of a list and returns the values that keep selects from its objects,
// which are of type O. Nothing else of an object stays in memory. Failures are retried as in
// Objects, except for a list that exceeds the bounds.
func Collect[L runtime.Object, O, T any](
	ctx context.Context, c *Clients, from Lister[L], list List, keep func(O) (kept T, ok bool),
) ([]T, error) {
	return repeat(ctx, c, "list "+list.Description, transport.RequestTimeout, func(ctx context.Context) ([]T, error) {
		var all []T

		err := each(ctx, from, list, func(object runtime.Object) error {
			item, ok := object.(O)
			if !ok {
				return fmt.Errorf("read %s: unexpected type %T", list.Description, object)
			}

			if kept, ok := keep(item); ok {
				all = append(all, kept)
			}

			return nil
		})
		if err != nil {
			return nil, err
		}

		return all, nil
	})
}

// each visits all objects of a list. It returns an error that wraps ErrListTooLarge
// if the list exceeds its bounds.
func each[L runtime.Object](ctx context.Context, from Lister[L], list List, visit func(runtime.Object) error) error {
	read := bounds{maxBytes: cmp.Or(list.MaxBytes, maxList), perPage: cmp.Or(list.PerPage, perPage)}

	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return readSmaller(ctx, from, &read, opts)
	})
	pages.PageSize = read.perPage
	// Prefetched pages would be in memory at the same time.
	pages.PageBufferSize = 0

	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: list.Labels, FieldSelector: list.Fields}, visit)
}

// readSmaller reads one page. If the page has too many elements in arrays, it reads this
// page and all following ones with a quarter of the objects: one object with many
// elements must not hide the others.
func readSmaller[L runtime.Object](ctx context.Context, from Lister[L], read *bounds, opts metav1.ListOptions) (runtime.Object, error) {
	for {
		opts.Limit = read.perPage

		page, err := readPage(ctx, from, read, opts)
		if !errors.Is(err, transport.ErrElements) || read.perPage == 1 {
			return page, err
		}

		read.perPage = max(1, read.perPage/4)
	}
}

// readPage reads and decodes one page. A large page holds its slot until it has been decoded.
func readPage[L runtime.Object](ctx context.Context, from Lister[L], read *bounds, opts metav1.ListOptions) (runtime.Object, error) {
	ctx, slot := transport.WithReadSlot(ctx)
	defer slot.Release()

	slot.Limit = maxPage

	page, err := from.List(ctx, opts)
	if err != nil {
		return nil, err
	}

	accessor, err := meta.ListAccessor(page)
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}

	return page, read.add(meta.LenList(page), slot.Bytes(), opts.Continue, accessor.GetContinue())
}

// bounds counts the objects, pages and bytes read of a list, and
// holds its byte limit and page size.
type bounds struct {
	objects, pages  int
	bytes, maxBytes int64
	perPage         int64
}

// maxPages returns the maximum number of pages of the list.
func (b *bounds) maxPages() int { return max(MaxPages, MaxObjects/int(b.perPage)) }

// add counts a page. It returns an error if the list exceeds its bounds
// with this page or the next one.
func (b *bounds) add(objects int, bytes int64, here, next string) error {
	b.objects, b.pages, b.bytes = b.objects+objects, b.pages+1, b.bytes+bytes

	if b.objects > MaxObjects || b.bytes > b.maxBytes || (next != "" && (b.pages >= b.maxPages() || next == here)) {
		return fmt.Errorf("%w: it has more than %d objects, %d pages or %d MiB, or a page that refers to itself as the next page",
			ErrListTooLarge, MaxObjects, b.maxPages(), b.maxBytes>>20)
	}

	return nil
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
