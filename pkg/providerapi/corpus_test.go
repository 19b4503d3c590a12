// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

const (
	// hangs is the duration after which a request counts as hanging.
	hangs = 2 * time.Minute
	// longestText is the maximum length of an error, in bytes, before pkg/statustext shortens it
	// for the shoot's status.
	longestText = 20 << 10
	// listens is how long watches are read.
	listens = 300 * time.Millisecond
)

// TestHostileAnswers sends requests to servers that are malicious in every known way.
// Every request ends, each response is refused by the bound that it exceeds, and no error
// repeats the server's text at length.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()

	for name, answer := range hostile.Answers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for way, err := range askAll(t, answer.Serve, 1) {
				if err != nil {
					require.Less(t, len(err.Error()), longestText, "%s: what a stranger says is not repeated at length", way)
				}

				if want, bounded := map[string]string{"get": answer.Get, "list": answer.List}[way]; bounded {
					requireRefused(t, err, want, way+": "+answer.Reason)
				}
			}
		})
	}
}

// requireRefused requires an error that contains says, or no error if says is empty.
func requireRefused(t *testing.T, err error, says, reason string) {
	t.Helper()

	if says == "" {
		require.NoError(t, err, reason)
	} else {
		require.ErrorContains(t, err, says, reason)
	}
}

// TestHostileStalls sends requests to servers that begin a response and then stall. All requests
// run concurrently, because each takes the full time limit.
func TestHostileStalls(t *testing.T) {
	t.Parallel()

	var asking sync.WaitGroup

	for name, serve := range hostile.Stalls() {
		asking.Go(func() {
			for way, err := range askAll(t, serve, -1) {
				// Watches end at their own timeout, and the response to a deletion is dropped.
				if way != "watch" && way != "follow" && way != "delete" {
					assert.Error(t, err, "%s: %s", name, way)
				}
			}
		})
	}

	asking.Wait()
}

// askAll sends every kind of request to a server, at most atOnce at a time or all at once if it is
// negative, and returns the errors.
func askAll(t *testing.T, serve http.HandlerFunc, atOnce int) map[string]error {
	t.Helper()

	server := httptest.NewTLSServer(serve)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	var (
		mu     sync.Mutex
		asking errgroup.Group
	)

	errs := map[string]error{}

	asking.SetLimit(atOnce)

	for way, ask := range ways(clientsOf(t, kubeconfigOf(t, server, hostile.Token))) {
		asking.Go(func() error {
			began := time.Now()
			err := ask(t.Context())

			mu.Lock()
			defer mu.Unlock()

			errs[way] = err

			assert.Less(t, time.Since(began), hangs, way)

			return nil
		})
	}

	_ = asking.Wait() // No goroutine returns an error.

	return errs
}

// ways returns the kinds of requests that are sent to a provider cluster.
func ways(c *providerapi.Clients) map[string]func(context.Context) error {
	vms := c.VirtualMachines()
	instances := c.Instances()
	pods := c.Kubernetes.CoreV1().Pods("machines")

	return map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := vms.Get(ctx, "m")

			return err
		},
		"create": func(ctx context.Context) error {
			_, err := vms.Create(ctx, &kubevirtv1.VirtualMachine{})

			return err
		},
		"delete": func(ctx context.Context) error {
			return vms.DeleteCollection(ctx, "m", "")
		},
		"list": func(ctx context.Context) error {
			_, err := providerapi.Collect(ctx, c, vms, providerapi.List{Description: "all"}, func(*kubevirtv1.VirtualMachine) (int, bool) { return 0, false })

			return err
		},
		"metadata": func(ctx context.Context) error {
			from := c.Metadata.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace("machines")
			_, err := providerapi.Collect(ctx, c, from, providerapi.List{Description: "all"}, func(o metav1.Object) (string, bool) { return o.GetName(), true })

			return err
		},
		"some": func(ctx context.Context) error {
			_, err := providerapi.Some[kubevirtv1.VirtualMachineInstance](ctx, instances, providerapi.List{}, 10)

			return providerapi.Explain(err)
		},
		"pods":   func(ctx context.Context) error { return readPods(ctx, pods) },
		"watch":  func(ctx context.Context) error { return watchOne(ctx, vms) },
		"until":  func(ctx context.Context) error { return waitForEnd(ctx, vms) },
		"follow": func(ctx context.Context) error { return followAll(ctx, instances) },
	}
}

func readPods(ctx context.Context, pods corev1client.PodInterface) error {
	_, err := providerapi.Once(ctx, 10*time.Second, func(ctx context.Context) (*corev1.Pod, error) { return pods.Get(ctx, "m", metav1.GetOptions{}) })

	return providerapi.Explain(err)
}

// watchOne reads events until the watch or its time ends.
func watchOne(ctx context.Context, from providerapi.VirtualMachines) error {
	ctx, cancel := context.WithTimeout(ctx, listens)
	defer cancel()

	events, err := from.WatchObject(ctx, metav1.ObjectMeta{Name: "m"})
	if err != nil {
		return providerapi.Explain(err)
	}

	defer events.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case _, more := <-events.ResultChan():
			if !more {
				return nil
			}
		}
	}
}

func waitForEnd(ctx context.Context, from providerapi.VirtualMachines) error {
	ctx, cancel := context.WithTimeout(ctx, listens)
	defer cancel()

	return from.AwaitDeletion(ctx, &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1"}})
}

// followAll follows objects for a while, and returns the error if it cannot observe them.
func followAll(ctx context.Context, from providerapi.Instances) error {
	ctx, cancel := context.WithTimeout(ctx, listens)
	defer cancel()

	blind := make(chan error, 1)

	informer, err := providerapi.Follow(from, &kubevirtv1.VirtualMachineInstance{}, providerapi.Following{
		Description: "all",
		Transform:   cache.TransformFunc(func(object any) (any, error) { return object, nil }),
		IsRelevant:  func(any, any) bool { return true },
		OnChange:    func() {},
		OnError: func(_ context.Context, err error) {
			select {
			case blind <- err:
			default:
			}
		},
	})
	if err != nil {
		return err
	}

	informer.RunWithContext(ctx)

	select {
	case err := <-blind:
		return err
	default:
		return nil
	}
}
