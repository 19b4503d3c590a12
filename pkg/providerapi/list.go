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
)

const (
	// MaxObjects bounds a list, in objects: no shoot has as many machines. A part of it is never used.
	MaxObjects = 20_000
	// MaxPages bounds a list whose pages are not full, as they need not be. One of smaller pages may have as many as MaxObjects fill.
	MaxPages = 200
	// maxList bounds a list in bytes, all pages together: names and what else is kept of objects may be long. The metadata of 10,000
	// VirtualMachines have as much.
	maxList = 32 << 20
	// perPage is how many objects a page has.
	perPage = 500
)

// ErrEndless says that a list exceeds the bounds of objects, pages or bytes. Errors that wrap it also wrap spi.ErrUnavailable.
var ErrEndless = errors.New("the list does not end")

// Lister is a typed client of one kind of objects.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
}

// List says what to list.
type List struct {
	// What names the objects and their namespace in errors.
	What string
	// Labels and Fields select the objects; empty for all.
	Labels, Fields string
	// PerPage is how many objects a page has at first; zero for 500. Whole objects with many arrays take less, so that a page stays within
	// the bounds of an answer; a page beyond them is read again with fewer.
	PerPage int64
	// MaxBytes bounds the bytes of all pages together; zero for 32 MiB. A list of which nothing long is kept may have more.
	MaxBytes int64
}

// Collect reads a list to its end, page by page, and returns what keep takes of its objects, which are of type O. Nothing else of an object
// stays in memory. A list is read like a Request; one beyond the bounds is not read again.
func Collect[L runtime.Object, O, T any](
	ctx context.Context, c *Clients, from Lister[L], list List, keep func(O) (kept T, ok bool),
) ([]T, error) {
	var all []T

	err := c.Request(ctx, "list "+list.What, func(ctx context.Context) error {
		all = nil

		return each(ctx, from, list, func(object runtime.Object) error {
			item, ok := object.(O)
			if !ok {
				return fmt.Errorf("read %s: unexpected type %T", list.What, object)
			}

			if kept, ok := keep(item); ok {
				all = append(all, kept)
			}

			return nil
		})
	})
	if err != nil {
		return nil, err
	}

	return all, nil
}

// each visits the objects, and returns an error that wraps ErrEndless when it has read as much as there may be.
func each[L runtime.Object](ctx context.Context, from Lister[L], list List, visit func(runtime.Object) error) error {
	read := bounds{maxBytes: cmp.Or(list.MaxBytes, maxList), perPage: cmp.Or(list.PerPage, perPage)}

	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return readSmaller(ctx, from, &read, opts)
	})
	pages.PageSize = read.perPage
	// Pages that are read ahead would be in memory together.
	pages.PageBufferSize = 0

	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: list.Labels, FieldSelector: list.Fields}, visit)
}

// readSmaller reads one page. If it has too many elements in arrays, this page and all that follow have a quarter of its objects: one object
// with many must not hide the others.
func readSmaller[L runtime.Object](ctx context.Context, from Lister[L], read *bounds, opts metav1.ListOptions) (runtime.Object, error) {
	for {
		opts.Limit = read.perPage

		page, err := readPage(ctx, from, read, opts)
		if !errors.Is(err, errElements) || read.perPage == 1 {
			return page, err
		}

		read.perPage = max(1, read.perPage/4)
	}
}

// readPage reads one page. If it is a large answer, the next one may be read when it has been decoded.
func readPage[L runtime.Object](ctx context.Context, from Lister[L], read *bounds, opts metav1.ListOptions) (runtime.Object, error) {
	ctx, turn := withTurn(ctx)
	defer turn.leave()

	turn.limit = maxPage

	page, err := from.List(ctx, opts)
	if err != nil {
		return nil, err
	}

	accessor, err := meta.ListAccessor(page)
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}

	return page, read.add(meta.LenList(page), turn.bytes.Load(), opts.Continue, accessor.GetContinue())
}

// bounds are what has been read of a list, how many bytes it may have, and how many objects a page has.
type bounds struct {
	objects, pages  int
	bytes, maxBytes int64
	perPage         int64
}

// maxPages returns how many pages the list may have.
func (b *bounds) maxPages() int { return max(MaxPages, MaxObjects/int(b.perPage)) }

// add counts a page. It returns an error if that, or the next one, is too much.
func (b *bounds) add(objects int, bytes int64, here, next string) error {
	b.objects, b.pages, b.bytes = b.objects+objects, b.pages+1, b.bytes+bytes

	if b.objects > MaxObjects || b.bytes > b.maxBytes || (next != "" && (b.pages >= b.maxPages() || next == here)) {
		return fmt.Errorf("%w: it has more than %d objects, %d pages or %d MiB, or a page that leads back to itself",
			ErrEndless, MaxObjects, b.maxPages(), b.maxBytes>>20)
	}

	return nil
}

// Some reads the first page of a list, and returns at most so many of its objects. It is for kinds of which there are few. It sends one
// request, whose time its caller limits; its errors are those of Once.
func Some[O any, L runtime.Object](ctx context.Context, from Lister[L], list List, most int64) ([]O, error) {
	ctx, turn := withTurn(ctx)
	defer turn.leave()

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
