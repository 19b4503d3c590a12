// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// thief has a token with which the driver authenticates, and uses it without the driver.
type thief struct {
	*harness.Shoot

	name string // in the names of its objects

	kube     kubernetes.Interface
	kubevirt kubevirt.Interface
	cdi      containerizeddataimporter.Interface
}

// TestStolenToken tries the actions that kubernetes/provider-cluster must prevent, on
// the real API server. All other tests run under the same policy, which shows that it
// does not hinder the driver.
func TestStolenToken(t *testing.T) {
	t.Parallel()

	s, d := harness.NewShoot(t), harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	worker := s.VM(t, m.Name())
	account, identity := steal(t, s)
	account.forbidHostDevices(t, worker)

	for _, theft := range []*thief{account, identity} {
		t.Run(theft.name+"/Workers", func(t *testing.T) { t.Parallel(); theft.requireWorkersOnly(t, worker) })
		t.Run(theft.name+"/Bastions", func(t *testing.T) { t.Parallel(); theft.requireConfinedBastions(t, worker) })
		t.Run(theft.name+"/Instancetypes", func(t *testing.T) { t.Parallel(); theft.requireNoBorrowedDevices(t, worker) })
		t.Run(theft.name+"/Secrets", func(t *testing.T) { t.Parallel(); theft.requireSecretsOfMachines(t) })
		t.Run(theft.name+"/DataVolumes", func(t *testing.T) { t.Parallel(); theft.requireGoldenImages(t) })
		t.Run(theft.name+"/Foreign", func(t *testing.T) { t.Parallel(); theft.requireForeignUntouched(t, worker) })
	}

	t.Cleanup(func() { require.NoError(t, m.Remove(context.WithoutCancel(t.Context()), d)) })
}

// identities is the group of WorkloadIdentities: extension/example/authentication-configuration.yaml.
const identities = "gardener:workloadidentities"

// steal gives the account, and a WorkloadIdentity of Gardener, more permissions than the shipped Role,
// so that only the policy can refuse requests.
func steal(t *testing.T, s *harness.Shoot) (account, identity *thief) {
	t.Helper()

	roles, bindings := s.Kube.RbacV1().Roles(s.ProviderNamespace), s.Kube.RbacV1().RoleBindings(s.ProviderNamespace)
	_, err := roles.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: s.ProviderNamespace, Name: "machine-controller"},
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: identities},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	s.DriverRight("*", "*", "*").Await(t, true)

	config, err := clientcmd.RESTConfigFromKubeConfig(s.ProviderKubeconfig)
	require.NoError(t, err)

	return newThief(t, s, "account", config),
		newThief(t, s, "identity", s.Impersonate("gardener:gardener.cloud:workloadidentity:garden-dev:provider-cluster:UID", identities))
}

func newThief(t *testing.T, s *harness.Shoot, name string, config *rest.Config) *thief {
	t.Helper()

	var err error

	stolen := &thief{Shoot: s, name: name}
	stolen.kube, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	stolen.kubevirt, err = kubevirt.NewForConfig(config)
	require.NoError(t, err)
	stolen.cdi, err = containerizeddataimporter.NewForConfig(config)
	require.NoError(t, err)

	return stolen
}

func requireRefused(t *testing.T, err error, says string) {
	t.Helper()
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'worker-machines.kubevirt.machine.gardener.cloud'")
	require.ErrorContains(t, err, says)
}

func (h *thief) requireWorkersOnly(t *testing.T, worker *kubevirtv1.VirtualMachine) {
	t.Helper()

	volume := func(source kubevirtv1.VolumeSource) func(*kubevirtv1.VirtualMachine) {
		return func(vm *kubevirtv1.VirtualMachine) {
			spec := &vm.Spec.Template.Spec
			spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: "more", VolumeSource: source})
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: "more"})
		}
	}

	tests := map[string]struct {
		change func(*kubevirtv1.VirtualMachine)
		says   string
	}{
		"a worker":       {change: func(*kubevirtv1.VirtualMachine) {}},
		"no tags":        {change: func(vm *kubevirtv1.VirtualMachine) { vm.Labels = nil }, says: "mcm.gardener.cloud/cluster"},
		"no role":        {change: func(vm *kubevirtv1.VirtualMachine) { delete(vm.Labels, "mcm.gardener.cloud/role") }, says: "mcm.gardener.cloud/role"},
		"host disk":      {change: volume(kubevirtv1.VolumeSource{HostDisk: &kubevirtv1.HostDisk{Path: "/disk.img", Type: kubevirtv1.HostDiskExists}}), says: "hostDisk"},
		"account's disk": {change: volume(kubevirtv1.VolumeSource{ServiceAccount: &kubevirtv1.ServiceAccountVolumeSource{ServiceAccountName: "default"}}), says: "serviceAccount"},
		"a bastion's label": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Labels[ofBastion()[1]] = "x"
		}, says: "workers may not have the label"},
		"hook sidecar": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"hooks.kubevirt.io/hookSidecars": `[{"image":"x"}]`}
		}, says: "hook sidecars"},
		"a Shoot's machine in another network": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Labels["kubevirt.provider.extensions.gardener.cloud/shoot-uid"] = "x"
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"ovn.kubernetes.io/logical_switch": "bank"}
		}, says: "other networks"},
		"host device": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Devices.HostDevices = []kubevirtv1.HostDevice{{Name: "a", DeviceName: "vendor.com/nic"}}
		}, says: "host devices"},
		"GPU": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Devices.GPUs = []kubevirtv1.GPU{{Name: "a", DeviceName: "vendor.com/gpu"}}
		}, says: "host devices"},
		"no tags in the template": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Labels = nil
		}, says: "in their template"},
		"unconfined": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/compute": "unconfined"}
		}, says: "confinement"},
		"a claim of the name": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.DataVolumeTemplates[0].Name = "admins"
		}, says: "must have the names that the driver gives them"},
		"a claim of the virtual machine's name": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.DataVolumeTemplates[0].Name = "stolen-admins"
		}, says: "must have the names that the driver gives them"},
		"a long name": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Name = strings.Repeat("m", 63)
			vm.Spec.DataVolumeTemplates[0].Name = render.DataVolumeName(vm.Name, worker.UID, "root")
			vm.Spec.Template.Spec.Volumes[0].DataVolume.Name = vm.Spec.DataVolumeTemplates[0].Name
		}},
	}

	for name, tc := range tests {
		vm := &kubevirtv1.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: worker.DeepCopy().Labels}, Spec: *worker.Spec.DeepCopy(),
		}
		for i := range vm.Spec.DataVolumeTemplates {
			vm.Spec.DataVolumeTemplates[i].Name = render.DataVolumeName(vm.Name, worker.UID, "root")
		}

		vm.Spec.Template.Spec.Volumes[0].DataVolume.Name = vm.Spec.DataVolumeTemplates[0].Name
		tc.change(vm)

		_, err := h.kubevirt.KubevirtV1().VirtualMachines(h.ProviderNamespace).Create(t.Context(), vm, harness.DryRun)
		if tc.says == "" {
			require.NoError(t, err, name)
		} else {
			requireRefused(t, err, tc.says)
		}
	}

	_, err := h.kubevirt.KubevirtV1().VirtualMachineInstances(h.ProviderNamespace).Create(t.Context(), &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: worker.DeepCopy().Labels}, Spec: *worker.Spec.Template.Spec.DeepCopy(),
	}, harness.DryRun)
	requireRefused(t, err, "may not create VirtualMachineInstances")
}

// forbidHostDevices restores the namespace's shipped state: the lab's namespaces allow
// workers with host devices.
func (h *thief) forbidHostDevices(t *testing.T, worker *kubevirtv1.VirtualMachine) {
	t.Helper()

	_, err := h.Shoot.Kube.CoreV1().Namespaces().Patch(t.Context(), h.ProviderNamespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"kubevirt.machine.gardener.cloud/host-devices":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)

	instance := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: worker.Labels}, Spec: *worker.Spec.Template.Spec.DeepCopy(),
	}
	instance.Spec.Domain.Devices.GPUs = []kubevirtv1.GPU{{Name: "a", DeviceName: "vendor.com/gpu"}}

	harness.Eventually(t, "the API server sees the Namespace without its label", func(ctx context.Context) (bool, error) {
		_, err := h.Shoot.KubeVirt.KubevirtV1().VirtualMachineInstances(h.ProviderNamespace).Create(ctx, instance, harness.DryRun)

		return apierrors.IsForbidden(err), nil
	})
}

// tags returns the tags of the shoot's workers.
func (h *thief) tags(more map[string]string) map[string]string {
	set := map[string]string{"mcm.gardener.cloud/cluster": h.Namespace, "mcm.gardener.cloud/role": "node"}
	for key, value := range more {
		set[key] = value
	}

	return set
}

func (h *thief) requireSecretsOfMachines(t *testing.T) {
	t.Helper()

	ofMachine := h.tags(map[string]string{"kubevirt.machine.gardener.cloud/machine": "stolen"})
	bastions := map[string]string{ofBastion()[0]: h.Namespace, ofBastion()[1]: "stolen"}

	for name, tc := range map[string]struct {
		secret corev1.Secret
		says   string
	}{
		"a machine's": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: ofMachine}}},
		"a bastion's": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: bastions}}},
		"a bastion's, with a service account's token": {
			secret: corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
				Labels: bastions, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
			}}, says: "Opaque",
		},
		"unlabelled": {secret: corev1.Secret{}, says: "mcm.gardener.cloud/cluster"},
		"no machine's": {
			secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: h.tags(nil)}}, says: "kubevirt.machine.gardener.cloud/machine",
		},
		"a service account's token": {
			secret: corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
				Labels: ofMachine, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
			}}, says: "Opaque",
		},
	} {
		tc.secret.Name = "stolen"

		_, err := h.kube.CoreV1().Secrets(h.ProviderNamespace).Create(t.Context(), &tc.secret, harness.DryRun)
		if tc.says == "" {
			require.NoError(t, err, name)
		} else {
			requireRefused(t, err, tc.says)
		}
	}

	// The worker has one, which the answer would contain.
	err := h.kube.CoreV1().Secrets(h.ProviderNamespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{LabelSelector: "kubevirt.machine.gardener.cloud/machine"})
	requireRefused(t, err, "may not delete Secrets in a dry run")
}

func (h *thief) requireGoldenImages(t *testing.T) {
	t.Helper()

	const golden = "kubevirt.machine.gardener.cloud/golden-image"

	for says, labels := range map[string]map[string]string{
		"mcm.gardener.cloud/cluster":    {golden: "stolen"},
		"may only create golden images": h.tags(map[string]string{golden: "stolen"}),
		"":                              {golden: "stolen", "mcm.gardener.cloud/cluster": h.Namespace},
	} {
		volume := &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "golden-" + strings.Repeat("0", 20), Labels: labels},
			Spec: cdiv1beta1.DataVolumeSpec{
				Source:  &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}},
				Storage: &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
			},
		}

		_, err := h.cdi.CdiV1beta1().DataVolumes(h.ProviderNamespace).Create(t.Context(), volume, harness.DryRun)
		if says == "" {
			require.NoError(t, err)
		} else {
			requireRefused(t, err, says)
		}

		volume.Annotations = map[string]string{"cdi.kubevirt.io/allowClaimAdoption": "true"}
		h.requireNoAdoption(t, volume, says)

		volume.Name, volume.Annotations = "admins", nil
		h.requireNoAdoption(t, volume, says)
	}
}

// requireNoAdoption tries to create a golden image that could take over a claim. It may be refused
// for another reason first.
func (h *thief) requireNoAdoption(t *testing.T, volume *cdiv1beta1.DataVolume, otherwise string) {
	t.Helper()

	_, err := h.cdi.CdiV1beta1().DataVolumes(h.ProviderNamespace).Create(t.Context(), volume, harness.DryRun)
	requireRefused(t, err, cmp.Or(otherwise, "may not adopt claims"))
}

// requireForeignUntouched creates the administrator's objects beside the machines. Requests for
// single objects and for collections must leave them unchanged.
func (h *thief) requireForeignUntouched(t *testing.T, worker *kubevirtv1.VirtualMachine) {
	t.Helper()

	name := h.name + "-admins"
	named := metav1.ObjectMeta{Name: name}
	ctx, one, namespace := t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name}, h.ProviderNamespace

	vm := &kubevirtv1.VirtualMachine{ObjectMeta: named, Spec: *worker.Spec.DeepCopy()}
	vm.Spec.DataVolumeTemplates, vm.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Domain.Devices.Disks = nil, nil, nil
	_, err := h.Shoot.KubeVirt.KubevirtV1().VirtualMachines(namespace).Create(ctx, vm, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = h.Shoot.Kube.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: named}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		require.NoError(t, h.Shoot.KubeVirt.KubevirtV1().VirtualMachines(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
		require.NoError(t, h.Shoot.Kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	})

	vms, secrets := h.kubevirt.KubevirtV1().VirtualMachines(namespace), h.kube.CoreV1().Secrets(namespace)
	relabelled := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{
		"labels": h.tags(map[string]string{"kubevirt.machine.gardener.cloud/machine": name}),
	}})
	asOfBastion := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{ofBastion()[0]: name, ofBastion()[1]: name}}})

	for what, do := range map[string]func() error{
		"delete the VirtualMachine":  func() error { return vms.Delete(ctx, name, metav1.DeleteOptions{}) },
		"delete all VirtualMachines": func() error { return vms.DeleteCollection(ctx, metav1.DeleteOptions{}, one) },
		"claim the VirtualMachine": func() error {
			_, err := vms.Patch(ctx, name, types.MergePatchType, relabelled, metav1.PatchOptions{})

			return err
		},
		"claim the VirtualMachine as a bastion": func() error {
			_, err := vms.Patch(ctx, name, types.MergePatchType, asOfBastion, metav1.PatchOptions{})

			return err
		},
		"delete the Secret":  func() error { return secrets.Delete(ctx, name, metav1.DeleteOptions{}) },
		"delete all Secrets": func() error { return secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, one) },
		"claim the Secret": func() error {
			_, err := secrets.Patch(ctx, name, types.MergePatchType, relabelled, metav1.PatchOptions{})

			return err
		},
		"claim the Secret as a bastion's": func() error {
			_, err := secrets.Patch(ctx, name, types.MergePatchType, asOfBastion, metav1.PatchOptions{})

			return err
		},
	} {
		t.Log(what)
		requireRefused(t, do(), "mcm.gardener.cloud/cluster")
	}
}
