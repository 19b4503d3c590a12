// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// seedName is the name of the Seed (manifests/seed.yaml).
const seedName = "seed"

// controllerManager is a component in whose name the landscape reports.
const controllerManager = "gardener-controller-manager"

//go:embed manifests/seed.yaml
var seedManifest []byte

// landscape is a running landscape.
type landscape struct {
	out           *screen.Screen
	seed          *seed.Seed
	installations *installations
	references    references

	// shoot is the Shoot with a control plane in the seed; nil if there is none. A lock protects it since
	// operations and health checks run at the same time.
	mu    sync.Mutex
	shoot *managedShoot
}

// managedShoot is a Shoot with a control plane in the seed.
type managedShoot struct {
	*seed.Botanist

	key client.ObjectKey
	// deleted is set if only the Shoot in the garden is left.
	deleted bool
}

// prepare creates what the operator of the garden and the admin of the provider cluster have done before: the Seed, and
// the shared network of the example Shoot.
func (l *landscape) prepare(ctx context.Context) error {
	if err := l.removePolicies(ctx); err != nil {
		return err
	}

	if err := l.seed.SharedNetwork(ctx, "net-conf"); err != nil {
		return fmt.Errorf("create the shared network: %w", err)
	}

	if err := l.seed.Apply(ctx, seedManifest); err != nil {
		return fmt.Errorf("create the Seed: %w", err)
	}

	s := &gardencorev1beta1.Seed{}
	if err := l.seed.Garden.Get(ctx, client.ObjectKey{Name: seedName}, s); err != nil {
		return err
	}

	s.Status.ClusterIdentity = ptr.To(seedName)
	s.Status.KubernetesVersion = ptr.To("v" + l.seed.KubernetesVersion())
	s.Status.Gardener = identity()
	s.Status.ObservedGeneration = s.Generation
	s.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           gardencorev1beta1.LastOperationTypeReconcile,
		State:          gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		LastUpdateTime: metav1.Now(),
	}
	s.Status.Conditions = seedConditions()

	if err := l.seed.Garden.Status().Update(ctx, s); err != nil {
		return fmt.Errorf("write the status of the Seed: %w", err)
	}

	return nil
}

// removePolicies deletes the admission policies for accounts of machines, which the lab has created. The admin applies
// them (kubernetes/provider-cluster).
func (l *landscape) removePolicies(ctx context.Context) error {
	policies := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
	bindings := &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}

	for _, list := range []client.ObjectList{policies, bindings} {
		if err := l.seed.Provider.List(ctx, list); err != nil {
			return fmt.Errorf("list admission policies: %w", err)
		}
	}

	var objects []client.Object
	for i := range policies.Items {
		objects = append(objects, &policies.Items[i])
	}

	for i := range bindings.Items {
		objects = append(objects, &bindings.Items[i])
	}

	for _, object := range objects {
		if !strings.HasSuffix(object.GetName(), ".kubevirt.machine.gardener.cloud") {
			continue
		}

		if err := l.seed.Provider.Delete(ctx, object); err != nil {
			return fmt.Errorf("delete admission policy %s: %w", object.GetName(), err)
		}
	}

	return nil
}

// seedConditions are those of a Seed that kubectl shows as Ready.
func seedConditions() (conditions []gardencorev1beta1.Condition) {
	for _, kind := range []gardencorev1beta1.ConditionType{gardencorev1beta1.GardenletReady, gardencorev1beta1.SeedExtensionsReady} {
		conditions = append(conditions, gardencorev1beta1.Condition{
			Type:               kind,
			Status:             gardencorev1beta1.ConditionTrue,
			Reason:             "Landscape",
			Message:            "The landscape acts for gardenlet.",
			LastTransitionTime: metav1.Now(),
			LastUpdateTime:     metav1.Now(),
		})
	}

	return conditions
}

func identity() *gardencorev1beta1.Gardener {
	return &gardencorev1beta1.Gardener{ID: "landscape", Name: "landscape", Version: seed.GardenerVersion()}
}

// component is one for which the program acts.
type component struct {
	name string
	act  func(context.Context) error
}

// run acts for the components until ctx ends.
func (l *landscape) run(ctx context.Context) {
	var running sync.WaitGroup

	for _, c := range []component{
		{controllerManager, func(ctx context.Context) error { return l.references.protect(ctx, l.reporter(controllerManager)) }},
		{controllerManager, l.labelShoots},
		{"gardener-scheduler", l.schedule},
		{controllerManager, l.installations.require},
		{"gardenlet", func(ctx context.Context) error { return l.installations.install(ctx, l.reporter("gardenlet")) }},
		{"gardenlet", l.reconcileShoots},
		{"gardenlet", l.checkHealth},
	} {
		running.Go(func() { l.keepActing(ctx, c) })
	}

	running.Go(func() { l.seed.RunInstalled(ctx, l.reporter("kubelet")) })
	running.Wait()
}

// keepActing lets a component act each second.
func (l *landscape) keepActing(ctx context.Context, c component) {
	const every = time.Second

	seed.Repeat(ctx, every, every, func(err error) { l.reporter(c.name)("%v", err) }, c.act)
}

func (l *landscape) reporter(name string) func(format string, args ...any) {
	return reporter(l.out, name)
}

// reporter returns a function that prints what a component does.
func reporter(out *screen.Screen, name string) func(format string, args ...any) {
	return func(format string, args ...any) {
		out.Line("%s  %s: %s", time.Now().Format(time.TimeOnly), name, fmt.Sprintf(format, args...))
	}
}

// stopPods ends the pods of the control plane in the seed, and waits for them until ctx ends.
func (l *landscape) stopPods(ctx context.Context) error {
	s := l.current()
	if s == nil {
		return nil
	}

	stopped := make(chan error, 1)
	go func() { stopped <- s.StopPods() }()

	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop the pods of Shoot %s: %w", s.key, ctx.Err())
	}
}

func (l *landscape) current() *managedShoot {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.shoot
}

func (l *landscape) setCurrent(s *managedShoot) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.shoot = s
}
