// Package pages reads lists of a provider cluster to their end, page by page and within bounds: whoever answers in place of an API
// server may never come to an end. pkg/spi/providercluster and pkg/goldenimage call it. It must not know what is listed, nor why.
package pages

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// MaxObjects bounds a list, in objects: no shoot has as many machines. A part of it is never used.
	MaxObjects = 20_000
	// MaxPages bounds a list whose pages are not full, as they need not be.
	MaxPages = 200
)

// errEndless ends a list that is longer than any.
var errEndless = errors.New("the list does not end")

// List is a list of objects.
type List struct {
	// What names the objects and their namespace in errors.
	What string
	// Selector selects them by their labels; empty for all.
	Selector string
	// Page reads one page.
	Page func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	// Request reads the list, and again while the provider cluster fails in a way that may pass. Its errors name what was tried.
	Request func(ctx context.Context, what string, send func(context.Context) error) error
}

// Collect returns what keep takes of the list's objects, which are of type O. Nothing else of an object stays in memory. A list beyond
// the bounds is an error that wraps spi.ErrUnavailable; it is not read again.
func Collect[O, T any](ctx context.Context, list List, keep func(O) (kept T, ok bool)) ([]T, error) {
	var (
		all     []T
		endless bool
	)

	err := list.Request(ctx, "list "+list.What, func(ctx context.Context) error {
		all = nil

		err := list.each(ctx, func(object runtime.Object) error {
			item, ok := object.(O)
			if !ok {
				return fmt.Errorf("read %s: unexpected type %T", list.What, object)
			}

			if kept, ok := keep(item); ok {
				all = append(all, kept)
			}

			return nil
		})
		if endless = errors.Is(err, errEndless); endless {
			return nil // Another attempt would be as long.
		}

		return err
	})

	switch {
	case err != nil:
		return nil, err
	case endless:
		return nil, fmt.Errorf("%w: the list of %s does not end: it has more than %d of them, more than %d pages, or a page that leads "+
			"back to itself; check what answers in place of the API server", spi.ErrUnavailable, list.What, MaxObjects, MaxPages)
	default:
		return all, nil
	}
}

// each visits the objects, and returns errEndless when it has read as much as there may be.
func (l *List) each(ctx context.Context, visit func(runtime.Object) error) error {
	objects, count := 0, 0
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		page, err := l.Page(ctx, opts)
		if err != nil {
			return nil, err
		}

		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", l.What, err)
		}

		next := list.GetContinue()

		objects, count = objects+meta.LenList(page), count+1
		if objects > MaxObjects || (next != "" && (count == MaxPages || next == opts.Continue)) {
			return nil, errEndless
		}

		return page, nil
	})

	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: l.Selector}, visit)
}
