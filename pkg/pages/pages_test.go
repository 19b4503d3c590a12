package pages_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var errBroken = errors.New("the connection broke")

// book is a list, of which each page has so many objects, and the last one leads nowhere. Objects are named by page and number.
type book []int

func (b book) page(_ context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	number, _ := strconv.Atoi(opts.Continue) // The first page has none.
	list := &metav1.PartialObjectMetadataList{}

	for i := range b[number] {
		name := strconv.Itoa(number) + "/" + strconv.Itoa(i)
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}

	if number+1 < len(b) {
		list.Continue = strconv.Itoa(number + 1)
	}

	return list, nil
}

// names keeps the names of all objects.
func names(object metav1.Object) (string, bool) {
	return object.GetName(), true
}

// once is a request that nobody repeats, and twice one that is sent again if it fails.
func once(ctx context.Context, _ string, send func(context.Context) error) error {
	return send(ctx)
}

func twice(ctx context.Context, _ string, send func(context.Context) error) error {
	if send(ctx) == nil {
		return nil
	}

	return send(ctx)
}

// TestCollect reads three pages, one of them empty.
func TestCollect(t *testing.T) {
	t.Parallel()

	var asked []metav1.ListOptions

	list := pages.List{
		What: "books", Selector: "a=b", Request: once,
		Page: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			asked = append(asked, opts)

			return book{2, 0, 2}.page(ctx, opts)
		},
	}

	all, err := pages.Collect(t.Context(), list, names)
	require.NoError(t, err)
	require.Equal(t, []string{"0/0", "0/1", "2/0", "2/1"}, all)
	require.Len(t, asked, 3, "nobody asks for a page twice")

	for _, opts := range asked {
		require.Equal(t, "a=b", opts.LabelSelector)
		require.Positive(t, opts.Limit, "the server is asked for pages")
	}

	some, err := pages.Collect(t.Context(), list, func(object metav1.Object) (int, bool) {
		return len(object.GetName()), object.GetName() == "2/1"
	})
	require.NoError(t, err)
	require.Equal(t, []int{3}, some)
}

// TestCollectAgain has the list break in its middle.
func TestCollectAgain(t *testing.T) {
	t.Parallel()

	broken := false
	list := pages.List{
		What: "books", Request: twice,
		Page: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			if opts.Continue != "" && !broken {
				broken = true

				return nil, errBroken
			}

			return book{1, 1}.page(ctx, opts)
		},
	}

	all, err := pages.Collect(t.Context(), list, names)
	require.NoError(t, err)
	require.Equal(t, []string{"0/0", "1/0"}, all, "what was read before counts once")
}

// TestCollectNoPart of a list that cannot be read, and no list that is not one.
func TestCollectNoPart(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		page  func(context.Context, metav1.ListOptions) (runtime.Object, error)
		says  string
		wraps error
		asked int
	}{
		"Broken": {func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			if opts.Continue != "" {
				return nil, errBroken
			}

			return book{1, 1}.page(ctx, opts)
		}, "broke", errBroken, 4},
		"NoList": {func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.PartialObjectMetadata{}, nil
		}, "read books", nil, 2},
		"Endless": {func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return make(book, pages.MaxPages+1).page(ctx, opts)
		}, "list of books does not end", spi.ErrUnavailable, pages.MaxPages},
		"TooLong": {book{pages.MaxObjects + 1}.page, "list of books does not end", spi.ErrUnavailable, 1},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			asked := 0
			list := pages.List{
				What: "books", Request: twice,
				Page: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					asked++

					return tc.page(ctx, opts)
				},
			}

			all, err := pages.Collect(t.Context(), list, names)
			require.ErrorContains(t, err, tc.says)
			require.Empty(t, all)
			require.Equal(t, tc.asked, asked, "what does not end is not read again")

			if tc.wraps != nil {
				require.ErrorIs(t, err, tc.wraps)
			}
		})
	}
}

// TestCollectOtherObjects reads what it did not ask for.
func TestCollectOtherObjects(t *testing.T) {
	t.Parallel()

	_, err := pages.Collect(t.Context(), pages.List{What: "books", Request: once, Page: book{1}.page},
		func(status *metav1.Status) (*metav1.Status, bool) { return status, true })
	require.ErrorContains(t, err, "read books: unexpected type *v1.PartialObjectMetadata")
}
