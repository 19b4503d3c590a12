package providercluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// watchLag is how far a watch may be behind what was created.
const watchLag = 10 * time.Second

func (s *session) migrations() kubevirtclient.VirtualMachineInstanceMigrationInterface {
	return s.clients.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.clients.Namespace)
}

// migrationName names the migration of an instance away from a node. It is the same after a restart, and for both of two processes.
func migrationName(instance types.UID, node string) string {
	const digits = 8

	sum := sha256.Sum256([]byte(string(instance) + "/" + node))

	return "evacuation-" + hex.EncodeToString(sum[:digits])
}

// migration returns what is known of our migration of that name, or nil.
func (e *evacuations) migration(name string) *kubevirtv1.VirtualMachineInstanceMigration {
	object, exists, err := e.seenMigrations.GetStore().GetByKey(e.path(name))
	if err != nil || !exists {
		return nil
	}

	migration, _ := object.(*kubevirtv1.VirtualMachineInstanceMigration)

	return migration
}

// migrationLabels leaves out a machine's name that is no label value. Nothing is selected by it.
func (e *evacuations) migrationLabels(machine string) map[string]string {
	set := map[string]string{
		v1alpha1.TagCluster: e.identity.Cluster, v1alpha1.TagRole: e.identity.Role, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
	}

	if _, labelled := render.MachineSelector(e.identity, machine); labelled {
		set[render.LabelMachine] = machine
	}

	return set
}

// Migrate implements spi.Evacuations. The instance owns the migration, which goes with it, also when nobody tidies up.
func (e *evacuations) Migrate(ctx context.Context, evacuation *spi.Evacuation) error {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name:   migrationName(evacuation.UID, evacuation.Node),
			Labels: e.migrationLabels(evacuation.Machine),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachineInstance", Name: evacuation.Machine, UID: evacuation.UID,
			}},
		},
		Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: evacuation.Machine},
	}

	err := e.request(ctx, "create VirtualMachineInstanceMigration "+e.path(migration.Name), func(ctx context.Context) error {
		_, err := e.migrations().Create(ctx, migration, strictly())

		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	e.asked[migration.Name] = time.Now()

	return nil
}

// unseen says whether a migration that the watch does not show was created a moment ago: KubeVirt would refuse to have it again, in
// words that name no reason for it.
func (e *evacuations) unseen(name string) (spi.Migration, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()

	for other, at := range e.asked {
		if time.Since(at) > watchLag {
			delete(e.asked, other)
		}
	}

	if at, ok := e.asked[name]; ok {
		return spi.MigrationPending, at
	}

	return spi.MigrationNone, time.Time{}
}

// EndMigration implements spi.Evacuations.
func (e *evacuations) EndMigration(ctx context.Context, evacuation *spi.Evacuation) error {
	migration := e.migration(migrationName(evacuation.UID, evacuation.Node))
	if migration == nil || migration.TargetIsHandedOff() {
		return nil
	}

	return e.deleteMigration(ctx, migration)
}

// Tidy implements spi.Evacuations. A failed migration stays as long as its evacuation: it is what says that there was one.
func (e *evacuations) Tidy(ctx context.Context) error {
	needed := map[string]bool{}

	for _, instance := range e.leaving() {
		needed[migrationName(instance.UID, instance.Status.EvacuationNodeName)] = true
	}

	var errs []error

	for _, object := range e.seenMigrations.GetStore().List() {
		migration, ok := object.(*kubevirtv1.VirtualMachineInstanceMigration)
		if ok && idle(migration, needed[migration.Name]) {
			errs = append(errs, e.deleteMigration(ctx, migration))
		}
	}

	return errors.Join(errs...)
}

// idle says whether a migration does nothing that anybody waits for. One that moves a guest is let finish.
func idle(migration *kubevirtv1.VirtualMachineInstanceMigration, needed bool) bool {
	switch {
	case migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return true
	case needed:
		return false
	default:
		return migration.IsFinal() || !migration.TargetIsHandedOff()
	}
}

func (e *evacuations) deleteMigration(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration) error {
	if migration.DeletionTimestamp != nil {
		return nil
	}

	err := e.request(ctx, "delete VirtualMachineInstanceMigration "+e.path(migration.Name), func(ctx context.Context) error {
		return e.migrations().Delete(ctx, migration.Name, justThis(migration.UID))
	})
	if providerapi.Absent(err) {
		return nil
	}

	return err
}
