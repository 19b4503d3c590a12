// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider finds and evacuates the machines that must leave their provider nodes. It
// implements spi.Evacuator on provider clusters; pkg/evacuation makes the decisions and calls it.
// It must not depend on Machines, deadlines or the control cluster.
package provider

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Evacuator implements spi.Evacuator.
type Evacuator struct {
	clients *providerapi.Cache
}

var _ spi.Evacuator = (*Evacuator)(nil)

// New returns an Evacuator that takes its clients from the cache.
func New(clients *providerapi.Cache) *Evacuator {
	return &Evacuator{clients: clients}
}

// ServerAndNamespace implements spi.Evacuator.
func (e *Evacuator) ServerAndNamespace(kubeconfig []byte) (string, error) {
	c, err := e.clients.For(kubeconfig)
	if err != nil {
		return "", err
	}

	return c.Server + "/" + c.Namespace, nil
}

// IsSameUser implements spi.Evacuator.
func (e *Evacuator) IsSameUser(a, b []byte) bool {
	before, err := e.clients.For(a)
	if err != nil {
		return false
	}

	after, err := e.clients.For(b)

	return err == nil && after.User != "" && before.User == after.User
}

// evacuations implements spi.Evacuations. Watches detect evacuations without periodic requests.
// Their caches may be stale, so irreversible actions require Confirm.
type evacuations struct {
	clients           *providerapi.Clients
	identity          spi.Identity
	instanceInformer  cache.SharedIndexInformer
	migrationInformer cache.SharedIndexInformer

	// created maps the names of migrations that the watch may not have delivered yet to their
	// creation times.
	created *utilcache.LRUExpireCache
	// foreignMigrations holds the observed foreign migrations, by the name of the driver's migration
	// that was rejected because of them.
	foreignMigrations *utilcache.LRUExpireCache
	// foreignPeriod is the interval at which foreign migrations are read again.
	foreignPeriod time.Duration
}

// WatchEvacuations implements spi.Evacuator.
func (e *Evacuator) WatchEvacuations(ctx context.Context, in *spi.WatchEvacuationsInput, changed func()) (spi.Evacuations, error) {
	if !in.Identity.Valid() {
		return nil, spi.Errorf(spi.ErrInvalid, "a watch for evacuations requires both the cluster and the role tag")
	}

	c, err := e.clients.For(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	w := &evacuations{
		clients:           c,
		identity:          in.Identity,
		created:           utilcache.NewLRUExpireCache(providerapi.MaxObjects),
		foreignMigrations: utilcache.NewLRUExpireCache(providerapi.MaxObjects),
		foreignPeriod:     foreignPeriod,
	}

	w.instanceInformer, err = providerapi.Follow(c.Instances(), &kubevirtv1.VirtualMachineInstance{}, w.following("VirtualMachineInstances", changed))
	if err != nil {
		return nil, err
	}

	w.migrationInformer, err = providerapi.Follow(c.Migrations(), &kubevirtv1.VirtualMachineInstanceMigration{},
		w.following("VirtualMachineInstanceMigrations", changed))
	if err != nil {
		return nil, err
	}

	go w.instanceInformer.RunWithContext(ctx)
	go w.migrationInformer.RunWithContext(ctx)

	return w, nil
}

func (e *evacuations) following(kind string, changed func()) providerapi.Following {
	return providerapi.Following{
		Description: kind + " in " + e.clients.Namespace,
		Labels:      render.Selector(e.identity),
		Transform:   trim,
		IsRelevant:  isRelevantChange,
		OnChange:    changed,
		OnError:     e.logWatchError,
	}
}

// List implements spi.Evacuations.
func (e *evacuations) List() ([]spi.Evacuation, bool) {
	if !e.instanceInformer.HasSynced() || !e.migrationInformer.HasSynced() {
		return nil, false
	}

	progress := e.migrationProgress()
	busy := e.busyNodes()

	var list []spi.Evacuation

	for _, instance := range e.instances(isMarked) {
		evacuation := e.evacuationOf(instance)
		evacuation.ShuttingDown = instance.DeletionTimestamp != nil
		evacuation.MigrationProgressAt = progress[evacuation.Node]
		evacuation.MigrationQueued = e.isQueued(instance, busy)
		list = append(list, evacuation)
	}

	return list, true
}

// markedInstances returns the instances that must be evacuated.
func (e *evacuations) markedInstances() []*kubevirtv1.VirtualMachineInstance {
	return e.instances(mustEvacuate)
}

// instances returns the selected instances. They are the informer's objects and must not be modified.
func (e *evacuations) instances(selected func(*kubevirtv1.VirtualMachineInstance) bool) []*kubevirtv1.VirtualMachineInstance {
	var list []*kubevirtv1.VirtualMachineInstance

	for _, object := range e.instanceInformer.GetStore().List() {
		if instance, ok := object.(*kubevirtv1.VirtualMachineInstance); ok && selected(instance) {
			list = append(list, instance)
		}
	}

	return list
}

// mustEvacuate reports whether an instance is marked and not being deleted, which would remove it from
// its node anyway.
func mustEvacuate(instance *kubevirtv1.VirtualMachineInstance) bool {
	return isMarked(instance) && instance.DeletionTimestamp == nil
}

// isMarked reports whether an instance is marked for evacuation from its node. An instance that is no
// longer on the marked node has been evacuated already. KubeVirt lets the eviction of an instance pass
// that has no strategy to migrate it, or that it may but cannot migrate (KubeVirt,
// pkg/virt-api/webhooks/validating-webhook/admitters, pod-eviction-admitter.go).
func isMarked(instance *kubevirtv1.VirtualMachineInstance) bool {
	strategy := strategyOf(instance)
	if strategy == kubevirtv1.EvictionStrategyNone || strategy == kubevirtv1.EvictionStrategyLiveMigrateIfPossible && !instance.IsMigratable() {
		return false
	}

	return instance.Status.EvacuationNodeName != "" && instance.Status.EvacuationNodeName == instance.Status.NodeName &&
		!instance.IsFinal()
}

// isMigratedByKubeVirt reports whether virt-controller live-migrates a marked instance (KubeVirt,
// pkg/virt-controller/watch/drain/evacuation). It repeats migrations that fail, without end.
func isMigratedByKubeVirt(instance *kubevirtv1.VirtualMachineInstance) bool {
	strategy := strategyOf(instance)

	return strategy == kubevirtv1.EvictionStrategyLiveMigrate || strategy == kubevirtv1.EvictionStrategyLiveMigrateIfPossible
}

// strategyOf returns the strategy of an instance; the driver acts on one without a strategy that is marked nevertheless.
func strategyOf(instance *kubevirtv1.VirtualMachineInstance) kubevirtv1.EvictionStrategy {
	return ptr.Deref(instance.Spec.EvictionStrategy, kubevirtv1.EvictionStrategyExternal)
}

func (e *evacuations) evacuationOf(instance *kubevirtv1.VirtualMachineInstance) spi.Evacuation {
	evacuation := spi.Evacuation{Machine: instance.Name, UID: instance.UID, Node: instance.Status.EvacuationNodeName}

	for _, condition := range instance.Status.Conditions {
		switch {
		case condition.Type == kubevirtv1.VirtualMachineInstanceEvictionRequested && condition.Status == corev1.ConditionTrue:
			evacuation.RequestedAt = condition.LastTransitionTime.Time
		case condition.Type == kubevirtv1.VirtualMachineInstanceIsMigratable && condition.Status == corev1.ConditionTrue:
			evacuation.Migratable = true
		case condition.Type == kubevirtv1.VirtualMachineInstanceIsMigratable:
			evacuation.NotMigratableReason = condition.Message
		}
	}

	if isMigratedByKubeVirt(instance) {
		evacuation.Migration, evacuation.MigrationSince = e.migrationByKubeVirt(instance)
	} else {
		evacuation.Migration, evacuation.MigrationSince = e.migrationOf(instance)
	}

	return evacuation
}

// migrationByKubeVirt returns the state of virt-controller's live migration of an instance, and when that
// state began. Until it has failed, it counts as requested, since virt-controller requests it.
func (e *evacuations) migrationByKubeVirt(instance *kubevirtv1.VirtualMachineInstance) (spi.Migration, time.Time) {
	known := e.foreign(migrationName(instance.UID, instance.Status.EvacuationNodeName))

	switch state := instance.Status.MigrationState; {
	case state != nil && isInProgress(state):
		return spi.MigrationRunning, state.StartTimestamp.Time
	case !instance.IsMigratable():
		return spi.MigrationNone, time.Time{}
	case known.failed:
		return spi.MigrationFailed, known.since
	default:
		return spi.MigrationForeign, known.since
	}
}

// migrationOf returns the state of an instance's live migration that is not left to KubeVirt, and when that
// state began. The migration may be the driver's own or a foreign one.
func (e *evacuations) migrationOf(instance *kubevirtv1.VirtualMachineInstance) (spi.Migration, time.Time) {
	if state := instance.Status.MigrationState; state != nil && isInProgress(state) {
		return spi.MigrationRunning, state.StartTimestamp.Time
	}

	name := migrationName(instance.UID, instance.Status.EvacuationNodeName)
	if own, since := e.ownMigration(name); own != spi.MigrationNone {
		return own, since
	}

	if known := e.foreign(name); known.unfinished {
		return spi.MigrationForeign, known.since
	}

	return spi.MigrationNone, time.Time{}
}

// ownMigration returns the state of the driver's migration of that name, and when that state began.
func (e *evacuations) ownMigration(name string) (spi.Migration, time.Time) {
	migration := e.migration(name)
	if migration == nil {
		return e.recentlyCreated(name)
	}

	switch created := migration.CreationTimestamp.Time; {
	case migration.Status.Phase == kubevirtv1.MigrationFailed:
		return spi.MigrationFailed, created
	case migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return spi.MigrationNone, time.Time{} // It belongs to an earlier evacuation of the same node. MaintainMigrations deletes it.
	case migration.TargetIsHandedOff():
		// Time in KubeVirt's queue does not count as running.
		return spi.MigrationRunning, latest(created, handOffTime(migration))
	default:
		return spi.MigrationPending, created
	}
}

// Confirm implements spi.Evacuations.
func (e *evacuations) Confirm(ctx context.Context, evacuation *spi.Evacuation) (bool, error) {
	instance, err := e.clients.Instances().Get(ctx, evacuation.Machine)
	if err != nil || instance == nil {
		return false, err
	}

	return instance.UID == evacuation.UID && instance.Status.EvacuationNodeName == evacuation.Node && mustEvacuate(instance), nil
}

// PowerOff implements spi.Evacuations. It deletes the VirtualMachine, since KubeVirt would restart
// the instance if only that were deleted. It does not delete a VirtualMachine that this shoot's driver
// does not manage.
func (e *evacuations) PowerOff(ctx context.Context, evacuation *spi.Evacuation) error {
	instance, err := e.clients.Instances().Get(ctx, evacuation.Machine)
	if err != nil || instance == nil || instance.UID != evacuation.UID {
		return err
	}

	vm, err := e.clients.VirtualMachines().Get(ctx, evacuation.Machine)

	switch {
	case err != nil:
		return err
	case vm == nil:
		return e.clients.Instances().DeleteObject(ctx, instance)
	case render.Owns(e.identity, vm.Labels) && metav1.IsControlledBy(instance, vm):
		return e.clients.VirtualMachines().DeleteUnchanged(ctx, vm)
	default:
		return spi.WithRemedy(spi.Errorf(spi.ErrForeign, "VirtualMachine %s lacks the tags of this shoot, or does not control the "+
			"VirtualMachineInstance of the same name, so it is not powered off", e.clients.Path(evacuation.Machine)),
			"restore its tags, or shut down the guest manually")
	}
}
