package pages_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

// endless is a list without an end. Each page has one object with a long name.
type endless struct{ pages int }

// List implements pages.Lister.
func (e *endless) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	e.pages++
	list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 1<<20)}}}}
	list.Continue = strconv.Itoa(e.pages)

	return list, nil
}

// TestCollect_Kept requires the memory of what is kept to be bounded, not that of what is dropped.
func TestCollect_Kept(t *testing.T) {
	t.Parallel()

	from := &endless{}
	all, err := pages.Collect(t.Context(), from, pages.List{MaxKept: 4 << 20}, func(o metav1.Object) (string, bool) { return o.GetName(), true })
	require.ErrorIs(t, err, pages.ErrTooLarge)
	require.ErrorContains(t, err, "what is needed of its objects takes more than 4096 KiB")
	require.Len(t, all, 3, "what was read before is returned")
	require.Equal(t, 4, from.pages, "no further page is read")

	from = &endless{}
	_, err = pages.Collect(t.Context(), from, pages.List{MaxKept: 4 << 20}, func(o metav1.Object) (string, bool) { return o.GetName(), false })
	require.ErrorIs(t, err, pages.ErrTooLarge)
	require.Equal(t, pages.MaxPages, from.pages, "only the number of pages is bounded")
}
