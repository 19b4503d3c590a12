// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var errBroken = errors.New("the connection broke")

// book is a list: each element is the number of objects of a page, and the last page has no
// continuation. Objects are named by page and number.
type book []int

func (b book) page(_ context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	number, _ := strconv.Atoi(opts.Continue) // The first page has no token.
	list := &metav1.PartialObjectMetadataList{}

	for i := range b[number] {
		name := strconv.Itoa(number) + "-" + strconv.Itoa(i)
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}

	if number+1 < len(b) {
		list.Continue = strconv.Itoa(number + 1)
	}

	return list, nil
}

// names keeps the name of every object.
func names(object metav1.Object) (string, bool) {
	return object.GetName(), true
}

// pager is a typed client that responds as the function does.
type pager func(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

// List implements providerapi.Lister.
func (p pager) List(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return p(ctx, opts)
}

// retrying are clients that retry requests for a short time.
var retrying = &providerapi.Clients{RetryFor: 300 * time.Millisecond}

// TestCollect reads three pages, one of them empty.
func TestCollect(t *testing.T) {
	t.Parallel()

	var asked []metav1.ListOptions

	list := providerapi.List{Description: "books", Labels: "a=b", Fields: "c=d"}
	from := pager(func(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		asked = append(asked, opts)

		return book{2, 0, 2}.page(ctx, opts)
	})

	all, err := providerapi.Collect(t.Context(), retrying, from, list, names)
	require.NoError(t, err)
	require.Equal(t, []string{"0-0", "0-1", "2-0", "2-1"}, all)
	require.Len(t, asked, 3, "nobody asks for a page twice")

	for _, opts := range asked {
		require.Equal(t, "a=b", opts.LabelSelector)
		require.Equal(t, "c=d", opts.FieldSelector)
		require.Positive(t, opts.Limit, "the server is asked for pages")
	}

	some, err := providerapi.Collect(t.Context(), retrying, from, list, func(object metav1.Object) (int, bool) {
		return len(object.GetName()), object.GetName() == "2-1"
	})
	require.NoError(t, err)
	require.Equal(t, []int{3}, some)
}

// TestCollect_RetriesPage fails in the middle of a list.
func TestCollect_RetriesPage(t *testing.T) {
	t.Parallel()

	broken := false
	from := pager(func(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		if opts.Continue != "" && !broken {
			broken = true

			return nil, errBroken
		}

		return book{1, 1}.page(ctx, opts)
	})

	all, err := providerapi.Collect(t.Context(), retrying, from, providerapi.List{Description: "books"}, names)
	require.NoError(t, err)
	require.Equal(t, []string{"0-0", "1-0"}, all, "what was read before counts once")
}

// TestCollect_NoPartialList verifies that a list that fails or exceeds the bounds is not returned in
// part.
func TestCollect_NoPartialList(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		page  pager
		says  string
		wraps error
		asked int
	}{
		"Broken": {func(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			if opts.Continue != "" {
				return nil, errBroken
			}

			return book{1, 1}.page(ctx, opts)
		}, "list books: the response cannot be read", errBroken, 4},
		"Endless":    {make(book, pages.MaxPages+1).page, "list books: the list does not end", providerapi.ErrListTooLarge, pages.MaxPages},
		"TooLong":    {book{providerapi.MaxObjects + 1}.page, "list books: the list does not end", providerapi.ErrListTooLarge, 1},
		"SmallPages": {make(book, 1000).page, "list books: the list does not end", providerapi.ErrListTooLarge, 400},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			asked := 0
			perPage := int64(0)
			from := pager(func(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				asked++

				return tc.page(ctx, opts)
			})

			if name == "SmallPages" {
				perPage = 50
			}

			all, err := providerapi.Collect(t.Context(), retrying, from, providerapi.List{Description: "books", PerPage: perPage}, names)
			require.ErrorContains(t, err, tc.says)
			require.ErrorIs(t, err, tc.wraps)
			require.ErrorIs(t, err, spi.ErrUnavailable)
			require.Empty(t, all)
			require.LessOrEqual(t, asked, tc.asked, "what does not end is not read again")
		})
	}
}

// TestHostilePages lists objects of which 21 exceed the bounds of a response, and then
// objects of which a single one does.
func TestHostilePages(t *testing.T) {
	t.Parallel()

	const objects = 30

	tests := map[string]struct {
		// elements is the number of array elements per object, and limits the requested page sizes.
		elements int
		limits   []int
	}{
		"Fewer": {50_000, []int{500, 125, 31, 7, 7, 7, 7, 7}},
		"One":   {500_000, []int{500, 125, 31, 7, 1}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked []int

			finalizers := strings.Repeat(`"",`, tc.elements-1) + `""`
			clients := clientsOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
				first, _ := strconv.Atoi(r.URL.Query().Get("continue")) // The first page has no token.
				asked = append(asked, limit)

				next := ""
				if first+limit < objects {
					next = strconv.Itoa(first + limit)
				}

				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":%q},"items":[`, next)

				separator := ""
				for i := first; i < min(first+limit, objects); i++ {
					// The client ends the connection when the page exceeds its bounds.
					if _, err := fmt.Fprintf(w, `%s{"metadata":{"name":"%d","finalizers":[%s]}}`, separator, i, finalizers); err != nil {
						return
					}

					separator = ","
				}

				fmt.Fprint(w, "]}")
			}))

			from := clients.Metadata.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace("machines")
			all, err := providerapi.Collect(t.Context(), clients, from, providerapi.List{Description: "books"}, names)
			require.Equal(t, tc.limits, asked)

			if name == "One" {
				require.ErrorContains(t, err, "its page takes more than 32 MiB of memory")
			} else {
				require.NoError(t, err)
				require.Len(t, all, objects)
				require.Equal(t, "29", all[objects-1])
			}
		})
	}
}

// TestCollectOtherObjects reads objects of another type than requested.
func TestCollectOtherObjects(t *testing.T) {
	t.Parallel()

	_, err := providerapi.Collect(t.Context(), &providerapi.Clients{}, pager(book{1}.page), providerapi.List{Description: "books"},
		func(status *metav1.Status) (*metav1.Status, bool) { return status, true })
	require.ErrorContains(t, err, "list books: the response cannot be read")
}

// TestSome reads the first objects of a list, however many there are.
func TestSome(t *testing.T) {
	t.Parallel()

	some, err := providerapi.Some[metav1.PartialObjectMetadata](t.Context(), pager(book{5, 5}.page), providerapi.List{}, 3)
	require.NoError(t, err)
	require.Len(t, some, 3, "a server need not keep to the limit")

	some, err = providerapi.Some[metav1.PartialObjectMetadata](t.Context(), pager(book{2, 5, 5}.page), providerapi.List{}, 3)
	require.NoError(t, err)
	require.Len(t, some, 3, "nor fill its pages")

	some, err = providerapi.Some[metav1.PartialObjectMetadata](t.Context(), pager(book{5}.page), providerapi.List{MaxKept: 700}, 3)
	require.ErrorIs(t, err, providerapi.ErrListTooLarge)
	require.NotEmpty(t, some, "what was read before is returned")
}
