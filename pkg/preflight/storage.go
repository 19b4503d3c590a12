package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// The annotations of the StorageClass for claims that name none. CDI prefers the former
// (pkg/controller/common/util.go).
const (
	annotationDefaultVirtClass = "storageclass.kubevirt.io/is-default-virt-class"
	annotationDefaultClass     = "storageclass.kubernetes.io/is-default-class"
)

// maxObjects bounds lists of kinds that have few objects.
const maxObjects = 500

// storages are the StorageClasses and CDI's StorageProfiles. Either may be unreadable.
type storages struct {
	classes    map[string]*storagev1.StorageClass
	classesErr error
	profiles   map[string]*cdiv1beta1.StorageProfile
	profileErr error
	config     *cdiv1beta1.CDIConfig
}

// listStorages never fails as a whole: the driver may read CDI's objects, as
// every user may, but not those of Kubernetes.
func (c *checker) listStorages(ctx context.Context) *storages {
	found := &storages{classes: map[string]*storagev1.StorageClass{}, profiles: map[string]*cdiv1beta1.StorageProfile{}}

	classes, err := listFew[storagev1.StorageClass](ctx, c.viewer.clients.Kubernetes.StorageV1().StorageClasses(), maxObjects)
	found.classesErr = err

	for i := range classes {
		found.classes[classes[i].Name] = &classes[i]
	}

	cdi := c.viewer.clients.CDI.CdiV1beta1()

	profiles, err := listFew[cdiv1beta1.StorageProfile](ctx, cdi.StorageProfiles(), maxObjects)
	found.profileErr = err

	for i := range profiles {
		found.profiles[profiles[i].Name] = &profiles[i]
	}

	found.config, err = ask(ctx, func(ctx context.Context) (*cdiv1beta1.CDIConfig, error) {
		return cdi.CDIConfigs().Get(ctx, "config", metav1.GetOptions{})
	})
	if err != nil {
		found.config = &cdiv1beta1.CDIConfig{} // CDI's defaults are known.
	}

	return found
}

// defaultClass returns the StorageClass of claims that name none; empty if there is none.
func (s *storages) defaultClass() string {
	for _, annotation := range []string{annotationDefaultVirtClass, annotationDefaultClass} {
		var names []string

		for name, class := range s.classes {
			if class.Annotations[annotation] == "true" {
				names = append(names, name)
			}
		}

		if len(names) > 0 { // Of several, the youngest applies; the admin has to clean up.
			return slices.MaxFunc(names, func(a, b string) int {
				return s.classes[a].CreationTimestamp.Compare(s.classes[b].CreationTimestamp.Time)
			})
		}
	}

	return ""
}

// claim is a DataVolume that a machine needs.
type claim struct {
	// path is the path of its spec in the class, volume the name of its volume.
	path, volume string
	spec         *cdiv1beta1.DataVolumeSpec
	// cloned reports whether it is filled from another volume of the provider cluster.
	cloned bool
	// blank reports whether it stays empty.
	blank bool
}

// claims returns the claims of one machine.
func (c *classChecker) claims() []claim {
	templates := c.vm.Spec.DataVolumeTemplates
	list := make([]claim, 0, len(templates))

	for i := range templates {
		spec := &templates[i].Spec
		path := c.field(fmt.Sprintf("spec.dataVolumeTemplates[%d].spec", i))
		list = append(list, claim{
			path: path, volume: strings.TrimPrefix(path, "providerSpec."), spec: spec,
			cloned: spec.SourceRef != nil || spec.Source != nil && (spec.Source.PVC != nil || spec.Source.Snapshot != nil),
			blank:  spec.Source != nil && spec.Source.Blank != nil,
		})
	}

	return list
}

// wants returns the storage properties that a claim specifies, and whether CDI completes them.
func (c *claim) wants() (class string, modes []corev1.PersistentVolumeAccessMode, volumeMode *corev1.PersistentVolumeMode, completed bool) {
	if c.spec.Storage != nil {
		return ptr.Deref(c.spec.Storage.StorageClassName, ""), c.spec.Storage.AccessModes, c.spec.Storage.VolumeMode, true
	}

	if c.spec.PVC != nil {
		return ptr.Deref(c.spec.PVC.StorageClassName, ""), c.spec.PVC.AccessModes, c.spec.PVC.VolumeMode, false
	}

	return "", nil, nil, true
}

// inField returns the path of a field of the claim's storage in the class.
func (c *claim) inField(name string) string {
	if c.spec.PVC != nil {
		return c.path + ".pvc." + name
	}

	return c.path + ".storage." + name
}

// storageClass returns the name of the StorageClass that a claim gets; empty if it is unknown.
func (c *claim) storageClass(found *storages) string {
	if name, _, _, _ := c.wants(); name != "" {
		return name
	}

	return found.defaultClass()
}

// checkStorage checks the StorageClasses of a machine's claims and their StorageProfiles.
func (c *classChecker) checkStorage(context.Context) []Result {
	found := c.storages()

	var (
		results, profiles []Result
		seen              = map[string]bool{}
	)

	for _, claim := range c.claims() {
		name, _, _, _ := claim.wants()
		if !seen[name] {
			results = append(results, c.checkStorageClass(found, &claim, name))
			seen[name] = true
		}

		if of := claim.storageClass(found); of != "" {
			profiles = append(profiles, c.checkProfile(found, &claim, of)...)
		}
	}

	return append(results, profiles...)
}

func (c *classChecker) checkStorageClass(found *storages, of *claim, name string) Result {
	v, subject, where := c.view(), "StorageClass "+name, of.inField("storageClassName")

	command := kubectl("get storageclass", name)
	if name == "" {
		subject, command = "default StorageClass", "kubectl get storageclasses"
	}

	switch {
	case found.classesErr != nil:
		return v.notChecked(checkStorageClass, subject, found.classesErr, command)
	case name == "" && found.defaultClass() == "":
		return v.fail(checkStorageClass, subject, "does not exist",
			fmt.Sprintf("set %s to one of %s, or mark a default one: kubectl annotate storageclass NAME %s=true", where, sortedNames(found.classes), annotationDefaultClass))
	case name == "":
		name = found.defaultClass()
	case found.classes[name] == nil:
		return v.fail(checkStorageClass, subject, "does not exist", fmt.Sprintf("set %s to one of %s", where, sortedNames(found.classes)))
	}

	class := found.classes[name]
	if zone := c.Machine.Spec.Zone; !provisionsIn(class, zone) {
		return v.fail(checkStorageClass, subject, fmt.Sprintf("%s does not provision volumes in zone %s (allowedTopologies)", name, zone),
			"set "+where+" to a class that does: kubectl get storageclasses --output=yaml")
	}

	mode := ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate)

	return v.ok(checkStorageClass, subject, fmt.Sprintf("%s, provisioner %s, binding mode %s", name, class.Provisioner, mode))
}

// provisionsIn reports whether a StorageClass creates volumes in a zone, if it restricts zones by
// the standard label of Kubernetes.
func provisionsIn(class *storagev1.StorageClass, zone string) bool {
	if zone == v1alpha1.AnyTopology {
		return true
	}

	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return e.Key == corev1.LabelTopologyZone && !slices.Contains(e.Values, zone)
		})
	})
}

func (c *classChecker) checkProfile(found *storages, of *claim, class string) []Result {
	v, subject, command := c.view(), "StorageProfile "+class+", for "+of.volume, kubectl("describe storageprofile", class)
	profile := found.profiles[class]

	switch {
	case unknownType(found.profileErr):
		return nil // CDI is missing, which was reported.
	case found.profileErr != nil:
		return []Result{v.notChecked(checkStorageProfile, subject, found.profileErr, command)}
	case profile == nil && found.classesErr == nil && found.classes[class] == nil:
		return nil // The StorageClass is missing, which was reported.
	case profile == nil:
		return []Result{v.fail(checkStorageProfile, subject, "does not exist, although CDI creates one for each StorageClass",
			"change "+of.inField("storageClassName")+" to an existing one: kubectl get storageprofiles")}
	}

	return append([]Result{c.checkAccessModes(v, subject, of, profile)}, c.checkCloning(v, subject, of, profile, found.classes[class])...)
}

// checkCloning checks for causes that make CDI copy a volume through pods. The
// StorageClass is nil if it cannot be read.
func (c *classChecker) checkCloning(v view, subject string, of *claim, profile *cdiv1beta1.StorageProfile, class *storagev1.StorageClass) []Result {
	switch {
	case !of.cloned:
		return nil
	case ptr.Deref(profile.Status.CloneStrategy, "") == cdiv1beta1.CloneStrategyHostAssisted:
		return []Result{v.warn(checkCloneStrategy, subject, "clones are copied through pods, which takes minutes for each machine",
			"if the storage can clone: "+kubectl("patch storageprofile", profile.Name)+` --type=merge --patch='{"spec":{"cloneStrategy":"csi-clone"}}'`)}
	case c.grows(of) && class != nil && !ptr.Deref(class.AllowVolumeExpansion, false):
		return []Result{v.warn(checkCloneStrategy, subject, "the StorageClass cannot expand volumes (allowVolumeExpansion): clones of a "+
			"smaller golden image are copied through pods, which takes minutes for each machine",
			kubectl("patch storageclass", class.Name)+` --patch='{"allowVolumeExpansion":true}' if the storage supports it, or use the same size for both`)}
	default:
		return nil
	}
}

// grows reports whether a claim is larger than the golden image that it is cloned from. The sizes
// of other sources are unknown.
func (c *classChecker) grows(of *claim) bool {
	if c.image == nil || of.path != rootVolumePath {
		return false
	}

	size := sizeOf(of.spec)

	return size.Cmp(sizeOf(&c.image.Spec)) > 0
}

func (c *classChecker) checkAccessModes(v view, subject string, of *claim, profile *cdiv1beta1.StorageProfile) Result {
	_, given, volumeMode, completed := of.wants()
	modes, effective := effectiveModes(given, volumeMode, profile.Status.ClaimPropertySets)

	switch {
	case len(modes) == 0 && completed:
		return v.fail(checkStorageProfile, subject, "has no access modes"+forMode(volumeMode)+", and the class sets none",
			kubectl("patch storageprofile", profile.Name)+" --type=merge --patch="+quoted(fmt.Sprintf(
				`{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":%q}]}}`,
				ptr.Deref(effective, corev1.PersistentVolumeFilesystem)))+", or set "+of.inField("accessModes"))
	case slices.Contains(modes, corev1.ReadWriteMany), len(given) > 0, !c.migrates():
		return v.ok(checkStorageProfile, subject, fmt.Sprintf("access modes %s, clone strategy %s", joined(modes), cloneStrategy(profile)))
	default:
		return v.warn(checkStorageProfile, subject, "access modes "+joined(modes)+": machines cannot be live-migrated when a node is drained",
			fmt.Sprintf("set %s to a class with ReadWriteMany, or %s to [%s] if that is intended",
				of.inField("storageClassName"), of.inField("accessModes"), quoted(joined(modes))))
	}
}

// effectiveModes returns the modes that CDI derives from the given ones: it uses the first matching
// set of the profile (pkg/controller/datavolume/pvc-utils.go).
func effectiveModes(
	given []corev1.PersistentVolumeAccessMode, volumeMode *corev1.PersistentVolumeMode, sets []cdiv1beta1.ClaimPropertySet,
) ([]corev1.PersistentVolumeAccessMode, *corev1.PersistentVolumeMode) {
	for _, set := range sets {
		if volumeMode != nil && ptr.Deref(set.VolumeMode, corev1.PersistentVolumeFilesystem) != *volumeMode {
			continue
		}

		if len(given) == 0 {
			return set.AccessModes, set.VolumeMode
		}

		if slices.ContainsFunc(set.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return slices.Contains(given, m) }) {
			return given, set.VolumeMode
		}
	}

	return given, volumeMode
}

// migrates reports whether the machine is live-migrated when its node is drained.
func (c *classChecker) migrates() bool {
	return ptr.Deref(c.vm.Spec.Template.Spec.EvictionStrategy, kubevirtv1.EvictionStrategyNone) != kubevirtv1.EvictionStrategyNone
}

func forMode(mode *corev1.PersistentVolumeMode) string {
	if mode == nil {
		return ""
	}

	return " for volumeMode " + string(*mode)
}

func cloneStrategy(profile *cdiv1beta1.StorageProfile) string {
	if strategy := ptr.Deref(profile.Status.CloneStrategy, ""); strategy != "" {
		return string(strategy)
	}

	return "chosen by CDI"
}

func joined[T ~string](list []T) string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		texts = append(texts, string(item))
	}

	return strings.Join(texts, ", ")
}
