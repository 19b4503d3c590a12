// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

// endless is a list without an end. Each page has one object with a long label.
type endless struct{ pages int }

// List implements pages.Lister.
func (e *endless) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	e.pages++
	list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"a": strings.Repeat("x", 1<<20)}}}}}
	list.Continue = strconv.Itoa(e.pages)

	return list, nil
}

// TestCollect_Kept requires the memory of what is kept to be bounded, not that of what is dropped.
func TestCollect_Kept(t *testing.T) {
	t.Parallel()

	from := &endless{}
	all, err := pages.Collect(t.Context(), from, pages.List{MaxKept: 4 << 20}, func(o metav1.Object) (string, bool) { return o.GetLabels()["a"], true })
	require.ErrorIs(t, err, pages.ErrTooLarge)
	require.ErrorContains(t, err, "what is needed of its objects takes more than 4096 KiB")
	require.Len(t, all, 3, "what was read before is returned")
	require.Equal(t, 4, from.pages, "no further page is read")

	from = &endless{}
	_, err = pages.Collect(t.Context(), from, pages.List{MaxKept: 4 << 20}, func(o metav1.Object) (string, bool) { return o.GetLabels()["a"], false })
	require.ErrorIs(t, err, pages.ErrTooLarge)
	require.Equal(t, pages.MaxPages, from.pages, "only the number of pages is bounded")
}

// token is a list whose page names a next page with a token of this length.
type token int

// List implements pages.Lister.
func (n token) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	if options.Continue == "" {
		list.Continue = strings.Repeat("x", int(n))
	}

	return list, nil
}

// TestEach_Token refuses the token of a next page that is too long for a URL.
func TestEach_Token(t *testing.T) {
	t.Parallel()

	visit := func(runtime.Object) error { return nil }
	require.NoError(t, pages.Each(t.Context(), token(4<<10), pages.List{}, visit))
	require.ErrorIs(t, pages.Each(t.Context(), token(4<<10+1), pages.List{}, visit), pages.ErrTooLarge)
}
