package providercluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

var _ spi.Evacuator = (*Provider)(nil)

// Place implements spi.Evacuator.
func (p *Provider) Place(kubeconfig []byte) (string, error) {
	s, err := p.connect(kubeconfig)
	if err != nil {
		return "", err
	}

	return s.clients.Server + "/" + s.clients.Namespace, nil
}

// evacuations implements spi.Evacuations. What is to be done is seen by watches, which cost nothing while nothing happens; a machine
// is never given up on their word alone.
type evacuations struct {
	*session

	identity       spi.Identity
	seenInstances  cache.SharedIndexInformer
	seenMigrations cache.SharedIndexInformer

	mu sync.Mutex
	// asked is when migrations were created that the watch may not have shown yet, by name.
	asked map[string]time.Time
}

// WatchEvacuations implements spi.Evacuator.
func (p *Provider) WatchEvacuations(ctx context.Context, in *spi.WatchEvacuationsInput, changed func()) (spi.Evacuations, error) {
	if !in.Identity.Valid() {
		return nil, spi.Errorf(spi.ErrInvalid, "watching machines needs both the cluster and the role tag")
	}

	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	selector := render.Selector(in.Identity)
	e := &evacuations{session: s, identity: in.Identity, asked: map[string]time.Time{}}

	e.seenInstances, err = providerapi.Follow(s.instances(), &kubevirtv1.VirtualMachineInstance{}, providerapi.Following{
		What: "VirtualMachineInstances in " + s.clients.Namespace, Labels: selector, Keep: withoutBallast, Matters: matters, Changed: changed,
		Blind: s.logBlindness,
	})
	if err != nil {
		return nil, err
	}

	e.seenMigrations, err = providerapi.Follow(s.migrations(), &kubevirtv1.VirtualMachineInstanceMigration{}, providerapi.Following{
		What: "VirtualMachineInstanceMigrations in " + s.clients.Namespace, Labels: selector, Keep: withoutBallast, Matters: matters,
		Changed: changed, Blind: s.logBlindness,
	})
	if err != nil {
		return nil, err
	}

	go e.seenInstances.RunWithContext(ctx)
	go e.seenMigrations.RunWithContext(ctx)

	return e, nil
}

// List implements spi.Evacuations.
func (e *evacuations) List() ([]spi.Evacuation, bool) {
	if !e.seenInstances.HasSynced() || !e.seenMigrations.HasSynced() {
		return nil, false
	}

	progress := e.progress()

	var list []spi.Evacuation

	for _, instance := range e.leaving() {
		evacuation := e.evacuationOf(instance)
		evacuation.MigrationProgress = progress[evacuation.Node]
		list = append(list, evacuation)
	}

	return list, true
}

// leaving returns the instances that are to leave their nodes. They are the informer's: never changed.
func (e *evacuations) leaving() []*kubevirtv1.VirtualMachineInstance {
	var list []*kubevirtv1.VirtualMachineInstance

	for _, object := range e.seenInstances.GetStore().List() {
		if instance, ok := object.(*kubevirtv1.VirtualMachineInstance); ok && toLeave(instance) {
			list = append(list, instance)
		}
	}

	return list
}

// toLeave says whether an instance is marked, and nobody else acts on the mark. With the strategies that name live migration
// virt-controller does (KubeVirt, pkg/virt-controller/watch/drain/evacuation). An instance on another node than the marked one has
// left already, and one that is being deleted leaves anyway.
func toLeave(instance *kubevirtv1.VirtualMachineInstance) bool {
	if strategy := instance.Spec.EvictionStrategy; strategy != nil && *strategy != kubevirtv1.EvictionStrategyExternal {
		return false
	}

	return instance.Status.EvacuationNodeName != "" && instance.Status.EvacuationNodeName == instance.Status.NodeName &&
		!instance.IsFinal() && instance.DeletionTimestamp == nil
}

func (e *evacuations) evacuationOf(instance *kubevirtv1.VirtualMachineInstance) spi.Evacuation {
	evacuation := spi.Evacuation{Machine: instance.Name, UID: instance.UID, Node: instance.Status.EvacuationNodeName}

	for _, condition := range instance.Status.Conditions {
		switch {
		case condition.Type == kubevirtv1.VirtualMachineInstanceEvictionRequested && condition.Status == corev1.ConditionTrue:
			evacuation.Since = condition.LastTransitionTime.Time
		case condition.Type == kubevirtv1.VirtualMachineInstanceIsMigratable && condition.Status == corev1.ConditionTrue:
			evacuation.Migratable = true
		case condition.Type == kubevirtv1.VirtualMachineInstanceIsMigratable:
			evacuation.Obstacle = condition.Message
		}
	}

	evacuation.Migration, evacuation.MigrationSince = e.migrationOf(instance)

	return evacuation
}

// migrationOf says how far the migration of an instance is: ours, or one that somebody else has begun.
func (e *evacuations) migrationOf(instance *kubevirtv1.VirtualMachineInstance) (spi.Migration, time.Time) {
	if state := instance.Status.MigrationState; state != nil && state.StartTimestamp != nil && state.EndTimestamp == nil {
		return spi.MigrationRunning, state.StartTimestamp.Time
	}

	name := migrationName(instance.UID, instance.Status.EvacuationNodeName)

	migration := e.migration(name)
	if migration == nil {
		return e.unseen(name)
	}

	switch created := migration.CreationTimestamp.Time; {
	case migration.Status.Phase == kubevirtv1.MigrationFailed:
		return spi.MigrationFailed, created
	case migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return spi.MigrationNone, time.Time{} // From an earlier evacuation of the same node; Tidy removes it.
	case migration.TargetIsHandedOff():
		// It may have waited in KubeVirt's queue for long before.
		return spi.MigrationRunning, latest(created, handedOff(migration))
	default:
		return spi.MigrationPending, created
	}
}

// Confirm implements spi.Evacuations.
func (e *evacuations) Confirm(ctx context.Context, evacuation *spi.Evacuation) (bool, error) {
	instance, err := e.getInstance(ctx, evacuation.Machine)
	if err != nil || instance == nil {
		return false, err
	}

	return instance.UID == evacuation.UID && instance.Status.EvacuationNodeName == evacuation.Node && toLeave(instance), nil
}

// PowerOff implements spi.Evacuations. The VirtualMachine goes, not the instance alone, which would be started again. An instance whose
// VirtualMachine is not managed here stays: ending it is not for this shoot to decide.
func (e *evacuations) PowerOff(ctx context.Context, evacuation *spi.Evacuation) error {
	instance, err := e.getInstance(ctx, evacuation.Machine)
	if err != nil || instance == nil || instance.UID != evacuation.UID {
		return err
	}

	vm, err := e.getVirtualMachine(ctx, evacuation.Machine)

	switch {
	case err != nil:
		return err
	case vm == nil:
		return e.deleteInstance(ctx, instance)
	case render.Owns(e.identity, vm.Labels) && metav1.IsControlledBy(instance, vm):
		return e.deleteVirtualMachine(ctx, vm)
	default:
		return spi.WithRemedy(spi.Errorf(spi.ErrForeign, "VirtualMachine %s lacks the tags of this shoot, or does not control the "+
			"VirtualMachineInstance of its name; nothing is powered off", e.path(evacuation.Machine)),
			"restore its tags, or end the guest by hand")
	}
}
