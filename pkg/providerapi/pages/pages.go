// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages reads lists of an API server that is not trusted, page by page. A page may be large,
// because it is dropped before the next one is read; what a caller keeps of a list may not. Package
// providerapi reads the driver's lists with it, and the Gardener extension its own. It must not depend on
// a kind of objects, nor how requests are sent.
package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// ErrTooLarge is the error for a list that exceeds the bounds on objects, pages or memory.
var ErrTooLarge = errors.New("the list does not end")

// Lister lists one kind of object. Its requests pass through package transport.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
}

// List describes the objects to list.
type List struct {
	// Description names the objects and their namespace in errors.
	Description string
	// Labels and Fields select the objects; empty for all.
	Labels, Fields string
	// PerPage is the initial number of objects per page; zero means 500. Whole objects need smaller
	// pages to stay within the bound on a page. A page that takes too much memory is read again with
	// fewer objects.
	PerPage int64
	// MaxCost bounds the memory that all pages take, one after the other, and so the time to decode
	// them, in bytes; zero means 512 MiB.
	MaxCost int64
	// MaxKept bounds the memory of the values that Collect returns, in bytes; zero means 4 MiB.
	MaxKept int64
	// Most is the number of values after which Collect ends; zero means all.
	Most int
}

// Collect reads all pages of a list and returns the values that keep selects from its objects,
// which are of type O. Nothing else of an object stays in memory. After an error, it returns the
// values before it.
func Collect[L runtime.Object, O, T any](
	ctx context.Context, from Lister[L], list List, keep func(O) (kept T, ok bool),
) (all []T, _ error) {
	left := cmp.Or(list.MaxKept, maxKept)

	err := Each(ctx, from, list, func(object runtime.Object) error {
		item, ok := object.(O)
		if !ok {
			return fmt.Errorf("read %s: unexpected type %T", list.Description, object)
		}

		kept, ok := keep(item)
		if !ok {
			return nil
		}

		if left -= MemoryOf(kept); left < 0 {
			return fmt.Errorf("%w: what is needed of its objects takes more than %d KiB", ErrTooLarge, cmp.Or(list.MaxKept, maxKept)>>10)
		}

		if all = append(all, kept); len(all) == list.Most {
			return errEnough
		}

		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}

	return all, err
}

// errEnough ends a list early.
var errEnough = errors.New("enough objects were read")

// Each visits all objects of a list. It returns an error that wraps ErrTooLarge if the list exceeds
// its bounds. If a page takes too much memory, it reads this page and all following ones with a
// quarter of the objects: one large object must not hide the others.
func Each[L runtime.Object](ctx context.Context, from Lister[L], list List, visit func(runtime.Object) error) error {
	read := bounds{maxCost: cmp.Or(list.MaxCost, maxCost), perPage: cmp.Or(list.PerPage, perPage)}
	opts := metav1.ListOptions{LabelSelector: list.Labels, FieldSelector: list.Fields}

	for {
		next, err := visitPage(ctx, from, &read, opts, visit)
		if errors.Is(err, transport.ErrPage) && read.perPage > 1 {
			read.perPage = max(1, read.perPage/4)

			continue
		}

		if err != nil || next == "" {
			return err
		}

		opts.Continue = next
	}
}

// visitPage reads a page, visits its objects, and returns the token of the next one. A large page holds
// its slot until it can be dropped.
func visitPage[L runtime.Object](
	ctx context.Context, from Lister[L], read *bounds, opts metav1.ListOptions, visit func(runtime.Object) error,
) (next string, _ error) {
	ctx, slot := transport.WithReadSlot(ctx)
	defer slot.Release()

	opts.Limit = read.perPage

	page, err := from.List(ctx, opts)
	if err != nil {
		return "", err
	}

	accessor, err := meta.ListAccessor(page)
	if err != nil {
		return "", fmt.Errorf("read a list: %w", err)
	}

	next = accessor.GetContinue()
	if err := read.add(meta.LenList(page), slot.Cost(), opts.Continue, next); err != nil {
		return "", err
	}

	return next, meta.EachListItem(page, func(object runtime.Object) error {
		if err := Check(object); err != nil {
			return err
		}

		return visit(object)
	})
}

// bounds counts the objects and pages read of a list and the memory that they took, and holds
// its page size.
type bounds struct {
	objects, pages int
	cost, maxCost  int64
	perPage        int64
}

// maxPages returns the maximum number of pages of the list.
func (b *bounds) maxPages() int { return max(MaxPages, MaxObjects/int(b.perPage)) }

// add counts a page. It returns an error if the list exceeds its bounds
// with this page or the next one.
func (b *bounds) add(objects int, cost int64, here, next string) error {
	b.objects, b.pages, b.cost = b.objects+objects, b.pages+1, b.cost+cost

	if b.objects > MaxObjects || b.cost > b.maxCost || len(next) > maxToken || (next != "" && (b.pages >= b.maxPages() || next == here)) {
		return fmt.Errorf("%w: it has more than %d objects or %d pages, its pages take more than %d MiB of memory, one after the other, or "+
			"a page names no valid next page", ErrTooLarge, MaxObjects, b.maxPages(), b.maxCost>>20)
	}

	return nil
}
