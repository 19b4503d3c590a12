// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// objectLog records every state of the objects that the driver writes and users see, in a file in
// the lab's folder for logs.
type objectLog struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	file   *os.File
	states map[string]int // number of states, by resource
}

var (
	machineObjects = schema.GroupVersion{Group: "machine.sapcloud.io", Version: "v1alpha1"}
	events         = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	controlObjects = []schema.GroupVersionResource{
		events, machineObjects.WithResource("machines"), machineObjects.WithResource("machinesets"), machineObjects.WithResource("machinedeployments"),
	}
	providerObjects = []schema.GroupVersionResource{
		events, {Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"},
	}
)

func recordObjects(ctx context.Context, lab *environment.Lab) (*objectLog, error) {
	file, err := os.Create(filepath.Join(lab.LogDir, "recorded-objects.log"))
	if err != nil {
		return nil, fmt.Errorf("record objects: %w", err)
	}

	l := &objectLog{file: file, states: map[string]int{}}
	ctx, l.cancel = context.WithCancel(ctx)

	failed := errors.Join(l.follow(ctx, lab.Control.Config(), controlObjects), l.follow(ctx, lab.Provider.Config(), providerObjects))

	return l, failed
}

// follow records every state of the objects of some types.
func (l *objectLog) follow(ctx context.Context, config *rest.Config, types []schema.GroupVersionResource) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("record objects: %w", err)
	}

	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)

	for _, resource := range types {
		write := func(object any) { l.write(resource.Resource, object) }

		if _, err := informers.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    write,
			UpdateFunc: func(_, now any) { write(now) },
		}); err != nil {
			return fmt.Errorf("record %s: %w", resource.Resource, err)
		}
	}

	informers.Start(ctx.Done())

	for resource, synced := range informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("follow %s: %w", resource.Resource, ctx.Err())
		}
	}

	l.done.Go(informers.Shutdown)

	return nil
}

func (l *objectLog) write(resource string, object any) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}

	line, err := json.Marshal(o)
	if err != nil {
		line = []byte(err.Error())
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.states[resource]++
	_, _ = io.WriteString(l.file, string(line)+"\n") // The search reports how much was written.
}

// stop ends the recording. It may be called more than once.
func (l *objectLog) stop() {
	if l != nil {
		l.cancel()
		l.done.Wait()
	}
}

// counts returns the number of recorded states, by resource.
func (l *objectLog) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return maps.Clone(l.states)
}
