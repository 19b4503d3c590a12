package goldenimage

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const candidateItem = `{"metadata":{"name":"golden-1","namespace":"ns","uid":"u","resourceVersion":"1",
	"labels":{"mcm.gardener.cloud/cluster":"c","%s":"golden-1"},"annotations":{"%s":"key"}}}`

// placeOf returns a place whose server answers each list with one page, but for one that never ends, and how many pages of that were
// asked for. It counts deletions too.
func placeOf(t *testing.T, endless, item string) (at Place, asked, deleted *atomic.Int32) {
	t.Helper()

	asked, deleted = &atomic.Int32{}, &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		if r.Method == http.MethodDelete {
			deleted.Add(1)

			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)

			return
		}

		list, kind, next, items := path.Base(r.URL.Path), `"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1"`, "", ""
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			list, kind = "metadata of "+list, `"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
		}

		if list == "metadata of datavolumes" {
			items = item
		}

		if list == endless {
			next = strconv.Itoa(int(asked.Add(1)))
		}

		_, _ = fmt.Fprintf(w, `{"kind":%s,"metadata":{"continue":%q},"items":[%s]}`, kind, next, items)
	}))

	return placeAt(t, server), asked, deleted
}

// placeAt returns the place of a server.
func placeAt(t *testing.T, server *httptest.Server) Place {
	t.Helper()
	t.Cleanup(server.Close)

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "ns"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
	})
	require.NoError(t, err)

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000}).For(raw)
	require.NoError(t, err)

	return Place{Clients: clients}
}

// TestSweepEnds has a server answer one of the lists without end. Nothing is deleted then.
func TestSweepEnds(t *testing.T) {
	t.Parallel()

	item := fmt.Sprintf(candidateItem, v1alpha1.LabelGoldenImage, v1alpha1.AnnotationGoldenImageKey)

	for _, endless := range []string{"", "metadata of datavolumes", "datavolumes", "metadata of virtualmachines"} {
		t.Run(endless, func(t *testing.T) {
			t.Parallel()

			at, asked, deleted := placeOf(t, endless, item)
			k := NewKeeper(clocktesting.NewFakePassiveClock(time.Now()))

			result, err := k.Sweep(t.Context(), at, Selection{
				Cluster: "c", MayGo: func(string) bool { return true }, NameOf: func(string) string { return "golden-1" },
				StaysWithMachines: func(string) bool { return false },
			})
			if endless == "" {
				require.NoError(t, err)
				require.Equal(t, []string{"golden-1"}, result.Deleted)

				return
			}

			require.ErrorIs(t, err, spi.ErrUnavailable)
			require.EqualValues(t, providerapi.MaxPages, asked.Load())
			require.Zero(t, deleted.Load(), "a part of a list is never used")
		})
	}
}
