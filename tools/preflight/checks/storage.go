package checks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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

// storages are the StorageClasses and CDI's StorageProfiles. Either may be unreadable.
type storages struct {
	classes    map[string]*storagev1.StorageClass
	classesErr error
	profiles   map[string]*cdiv1beta1.StorageProfile
	profileErr error
}

// listStorages never fails as a whole: the driver may read CDI's objects, as
// every user may, but not those of Kubernetes.
func (c *checker) listStorages(ctx context.Context) *storages {
	found := &storages{classes: map[string]*storagev1.StorageClass{}, profiles: map[string]*cdiv1beta1.StorageProfile{}}

	classes, err := listFew[storagev1.StorageClass](ctx, c.viewer.clients.Kubernetes.StorageV1().StorageClasses())
	found.classesErr = err

	for i := range classes {
		found.classes[classes[i].Name] = &classes[i]
	}

	profiles, err := listFew[cdiv1beta1.StorageProfile](ctx, c.viewer.clients.CDI.CdiV1beta1().StorageProfiles())
	found.profileErr = err

	for i := range profiles {
		found.profiles[profiles[i].Name] = &profiles[i]
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

// rootVolumePath is the path of the DataVolume that is cloned from a golden image, if there is one.
const rootVolumePath = "providerSpec.rootVolume"

// disk is a DataVolume, and the claim that CDI creates for it.
type disk struct {
	// path is the path of the spec in the class.
	path string
	spec *cdiv1beta1.DataVolumeSpec
	// requested is the storage that the spec requests, and completed reports whether CDI completes it.
	requested cdiv1beta1.StorageSpec
	completed bool
	// class is the StorageClass of the claim; empty if it is unknown.
	class string
	// cloned reports whether the disk is filled from another volume of the provider cluster, and copied
	// whether this takes two pods.
	cloned, copied bool
}

// disks returns the disks of one machine.
func (c *classChecker) disks() []disk {
	templates := c.vm.Spec.DataVolumeTemplates
	list := make([]disk, 0, len(templates))

	for i := range templates {
		list = append(list, c.storages().disk(c.field(fmt.Sprintf("spec.dataVolumeTemplates[%d].spec", i)), &templates[i].Spec))
	}

	return list
}

// clonesImage reports whether a disk is cloned from the golden image.
func (c *classChecker) clonesImage(d *disk) bool {
	return c.image != nil && d.path == rootVolumePath
}

// disk returns the disk of a DataVolume.
func (s *storages) disk(path string, spec *cdiv1beta1.DataVolumeSpec) disk {
	d := disk{path: path, spec: spec}
	d.requested, d.completed = requestedStorage(spec)
	d.class = cmp.Or(ptr.Deref(d.requested.StorageClassName, ""), s.defaultClass())
	d.cloned = spec.SourceRef != nil || spec.Source != nil && (spec.Source.PVC != nil || spec.Source.Snapshot != nil)

	if profile := s.profiles[d.class]; profile != nil {
		d.copied = ptr.Deref(profile.Status.CloneStrategy, "") == cdiv1beta1.CloneStrategyHostAssisted
	}

	return d
}

// requestedStorage returns the storage that a DataVolume requests. CDI uses a pvc unchanged, and
// completes a storage.
func requestedStorage(spec *cdiv1beta1.DataVolumeSpec) (storage cdiv1beta1.StorageSpec, completed bool) {
	if pvc := spec.PVC; pvc != nil {
		return cdiv1beta1.StorageSpec{
			StorageClassName: pvc.StorageClassName,
			AccessModes:      pvc.AccessModes,
			VolumeMode:       pvc.VolumeMode,
			Resources:        pvc.Resources,
		}, false
	}

	return ptr.Deref(spec.Storage, cdiv1beta1.StorageSpec{}), true
}

// inField returns the path of a field of the disk's storage in the class.
func (d *disk) inField(name string) string {
	if d.spec.PVC != nil {
		return d.path + ".pvc." + name
	}

	return d.path + ".storage." + name
}

// checkStorage checks the StorageClasses of a machine's disks and their StorageProfiles.
func (c *classChecker) checkStorage(context.Context) []Result {
	var (
		results, profiles []Result
		seen              = map[string]bool{}
	)

	for _, d := range c.disks() {
		name := ptr.Deref(d.requested.StorageClassName, "")
		if !seen[name] {
			results = append(results, c.checkStorageClass(&d, name)...)
			seen[name] = true
		}

		if d.class != "" {
			profiles = append(profiles, c.checkProfile(&d)...)
		}
	}

	return append(results, profiles...)
}

// checkStorageClass checks the StorageClass that a disk names; empty for the default.
func (c *classChecker) checkStorageClass(d *disk, name string) []Result {
	found := c.storages()
	field := d.inField("storageClassName")
	s := c.about(checkStorageClass, "StorageClass "+name)
	command := kubectl("get storageclass", name)

	if name == "" {
		s.name = "default StorageClass"
		command = "kubectl get storageclasses"
	}

	class := found.classes[d.class]
	existing := "an existing StorageClass, and create one: the provider cluster has none"
	if len(found.classes) > 0 {
		existing = "one of " + quotedList(slices.Sorted(maps.Keys(found.classes)))
	}

	switch {
	case found.classesErr != nil:
		return s.notChecked(found.classesErr, command)
	case class == nil && name == "":
		return s.fail("does not exist", fmt.Sprintf("set %s to %s, or mark a default one: kubectl annotate storageclass NAME %s=true",
			field, existing, annotationDefaultClass))
	case class == nil:
		return s.fail("does not exist", fmt.Sprintf("set %s to %s", field, existing))
	case !provisionsIn(class, c.Machine.Spec.Zone):
		return s.fail(fmt.Sprintf("%s does not provision volumes in zone %s (allowedTopologies)", d.class, c.Machine.Spec.Zone),
			"set "+field+" to a class that does: kubectl get storageclasses --output=yaml")
	}

	mode := ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate)

	return s.ok(fmt.Sprintf("%s, provisioner %s, binding mode %s", d.class, class.Provisioner, mode))
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

func (c *classChecker) checkProfile(d *disk) []Result {
	s := c.about(checkStorageProfile, "StorageProfile "+d.class+", for "+strings.TrimPrefix(d.path, "providerSpec."))
	found := c.storages()
	profile := found.profiles[d.class]

	switch {
	case unknownType(found.profileErr):
		return nil // CDI is missing, which was reported.
	case found.profileErr != nil:
		return s.notChecked(found.profileErr, kubectl("describe storageprofile", d.class))
	case profile == nil && found.classesErr == nil && found.classes[d.class] == nil:
		return nil // The StorageClass is missing, which was reported.
	case profile == nil:
		return s.fail("does not exist, although CDI creates one for each StorageClass",
			"change "+d.inField("storageClassName")+" to an existing one: kubectl get storageprofiles")
	}

	return append(c.checkAccessModes(s, d, profile), c.checkCloning(s, d, found.classes[d.class])...)
}

// checkCloning checks for causes that make CDI copy a volume through pods. The
// StorageClass is nil if it cannot be read.
func (c *classChecker) checkCloning(s subject, d *disk, class *storagev1.StorageClass) []Result {
	s.check = checkCloneStrategy

	switch {
	case !d.cloned:
		return nil
	case d.copied:
		return s.warn("clones are copied through pods, which takes minutes for each machine",
			"if the storage can clone: "+kubectl("patch storageprofile", d.class)+` --type=merge --patch='{"spec":{"cloneStrategy":"csi-clone"}}'`)
	case c.grows(d) && class != nil && !ptr.Deref(class.AllowVolumeExpansion, false):
		return s.warn("the StorageClass cannot expand volumes (allowVolumeExpansion): clones of a "+
			"smaller golden image are copied through pods, which takes minutes for each machine",
			kubectl("patch storageclass", d.class)+` --patch='{"allowVolumeExpansion":true}' if the storage supports it, or use the same size for both`)
	default:
		return nil
	}
}

// grows reports whether a disk is larger than the golden image that it is cloned from. The sizes
// of other sources are unknown.
func (c *classChecker) grows(d *disk) bool {
	if !c.clonesImage(d) {
		return false
	}

	image, _ := requestedStorage(&c.image.Spec)

	return d.requested.Resources.Requests.Storage().Cmp(*image.Resources.Requests.Storage()) > 0
}

func (c *classChecker) checkAccessModes(s subject, d *disk, profile *cdiv1beta1.StorageProfile) []Result {
	var (
		given               = d.requested.AccessModes
		modes, volumeMode   = d.effectiveModes(profile)
		field, ofVolumeMode = d.inField("accessModes"), ""
	)

	if mode := d.requested.VolumeMode; mode != nil {
		ofVolumeMode = " for volumeMode " + string(*mode)
	}

	switch {
	case len(modes) == 0 && d.completed:
		return s.fail("has no access modes"+ofVolumeMode+", and the class sets none",
			kubectl("patch storageprofile", profile.Name)+" --type=merge --patch="+quoted(fmt.Sprintf(
				`{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":%q}]}}`,
				ptr.Deref(volumeMode, corev1.PersistentVolumeFilesystem)))+", or set "+field)
	case slices.Contains(modes, corev1.ReadWriteMany), len(given) > 0, !c.migrates():
		strategy := cmp.Or(ptr.Deref(profile.Status.CloneStrategy, ""), "chosen by CDI")

		return s.ok(fmt.Sprintf("access modes %s, clone strategy %s", joined(modes), strategy))
	default:
		return s.warn("access modes "+joined(modes)+": machines cannot be live-migrated when a node is drained",
			fmt.Sprintf("set %s to a class with ReadWriteMany, or %s to [%s] if that is intended", d.inField("storageClassName"), field, quoted(joined(modes))))
	}
}

// effectiveModes returns the modes that CDI derives from the requested ones: it uses the first
// matching set of the profile (pkg/controller/datavolume/pvc-utils.go).
func (d *disk) effectiveModes(profile *cdiv1beta1.StorageProfile) ([]corev1.PersistentVolumeAccessMode, *corev1.PersistentVolumeMode) {
	given := d.requested.AccessModes
	volumeMode := d.requested.VolumeMode

	for _, set := range profile.Status.ClaimPropertySets {
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

func joined[T ~string](list []T) string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		texts = append(texts, string(item))
	}

	return strings.Join(texts, ", ")
}
