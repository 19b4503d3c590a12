// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestAcceptance checks that KubeVirt and CDI accept every spec that the driver accepts, and that a
// spec with a field that this KubeVirt or CDI does not know is refused by its name.
// This includes checks made only after KubeVirt has accepted the VirtualMachine, whose
// errors are not returned to the driver. ACCEPTANCE_SPECS and ACCEPTANCE_SEED set the number
// and the seed of random specs.
func TestAcceptance(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.MakeInstancetype(t)

	count := setting(t, "ACCEPTANCE_SPECS", 400)
	seed := setting(t, "ACCEPTANCE_SEED", 1)
	specs := make([][]byte, count)
	list := acceptedFeatures(t)
	covered := map[string]bool{}

	for i := range specs {
		// Each feature is the first one in turn, so that all features are covered.
		spec, used := generate(t, rand.New(rand.NewPCG(seed, uint64(i))), list[i%len(list)], list)
		specs[i] = encode(t, spec)

		for _, name := range used {
			covered[name] = true
		}
	}

	refused := judgeAll(t, s, specs, unknownFieldsHere(t))
	for _, i := range slices.Sorted(maps.Keys(refused)) {
		t.Errorf("seed %d, spec %d: %v\n%s", seed, i, refused[i], asYAML(t, specs[i]))
	}

	t.Logf("seed %d: %d of %d specs accepted, with %d of %d features", seed, len(specs)-len(refused), len(specs), len(covered), len(list))
}

func setting(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()

	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}

	value, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err, name)

	return value
}

func encode(t *testing.T, spec tree) []byte {
	t.Helper()

	raw, err := json.Marshal(spec)
	require.NoError(t, err)

	return raw
}

func asYAML(t *testing.T, raw []byte) string {
	t.Helper()

	text, err := yaml.JSONToYAML(raw)
	require.NoError(t, err)

	return string(text)
}

// judgeAll returns the errors of the specs, by index.
func judgeAll(t *testing.T, s *harness.Shoot, specs [][]byte, unknown unknownFields) map[int]error {
	t.Helper()

	var (
		mutex   sync.Mutex
		refused = map[int]error{}
	)

	const workers = 8

	workqueue.ParallelizeUntil(t.Context(), workers, len(specs), func(i int) {
		if err := judgeSpec(t.Context(), s, specs[i], unknown); err != nil {
			mutex.Lock()
			defer mutex.Unlock()

			refused[i] = err
		}
	})
	require.NoError(t, t.Context().Err())

	return refused
}

// judgeSpec submits a spec to every component that validates it, in order: driver, API
// server, KubeVirt and CDI.
func judgeSpec(ctx context.Context, s *harness.Shoot, raw []byte, unknown unknownFields) error {
	in := inputOf(s, "pool-z1-5f4d8-abcde", raw)
	if err := in.faults.ToAggregate(); err != nil {
		return fmt.Errorf("the driver refuses it: %w", err)
	}

	for _, secret := range render.Secrets(in.machine, s.ProviderNamespace) {
		if _, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Create(ctx, secret, dryRun()); err != nil {
			return fmt.Errorf("the Secret is refused: %w", err)
		}
	}

	err := createVM(ctx, s, in)

	if used := unknown.usedBy(in); used != "" {
		if err == nil || !strings.Contains(err.Error(), "unknown field") || !strings.Contains(err.Error(), used) {
			return fmt.Errorf("KubeVirt, or CDI, must refuse the unknown field %s: %w", used, err)
		}

		return nil
	}

	if err != nil {
		return fmt.Errorf("KubeVirt, or CDI, refuses it: %w", err)
	}

	return judgeLater(ctx, s, in)
}

// judged is a spec prepared for validation by KubeVirt.
type judged struct {
	faults  field.ErrorList
	machine *spi.CreateMachineInput
	image   *cdiv1beta1.DataVolume // nil if the machine needs none
	vm      *kubevirtv1.VirtualMachine
}

// inputOf prepares a spec as the driver does before it sends requests. A rendering
// error is added to the faults.
func inputOf(s *harness.Shoot, name string, raw []byte) judged {
	_, faults := validation.Decode(raw, validation.Options{Template: validation.TemplateSafe})

	// The negative cases are rendered despite their faults.
	spec, _ := v1alpha1.Decode(raw, field.NewPath("providerSpec"))
	in := judged{
		faults: faults,
		machine: &spi.CreateMachineInput{
			Name:         name,
			UID:          types.UID("0a1b2c3d-0000-4000-8000-000000000000"),
			Deployment:   "pool-z1",
			WorkerPool:   "pool",
			Architecture: "amd64",
			UserData:     []byte("#cloud-config\n"),
			Spec:         spec,
		},
	}

	vm, err := render.VirtualMachine(in.machine, s.ProviderNamespace)
	if err != nil {
		in.faults = append(in.faults, field.InternalError(field.NewPath("providerSpec"), err))
	}

	in.vm = vm

	if !spec.UsesGoldenImage() {
		return in
	}

	if in.image, err = in.machine.Image().DataVolume(s.ProviderNamespace); err != nil {
		in.faults = append(in.faults, field.InternalError(field.NewPath("providerSpec"), err))
	}

	return in
}

func dryRun() metav1.CreateOptions {
	return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
}

func createVM(ctx context.Context, s *harness.Shoot, in judged) error {
	if in.image != nil {
		if _, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(ctx, in.image, dryRun()); err != nil {
			return err
		}
	}

	_, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(ctx, in.vm, dryRun())

	return err
}

// judgeLater creates the objects that virt-controller creates after KubeVirt has
// accepted the VirtualMachine.
func judgeLater(ctx context.Context, s *harness.Shoot, in judged) error {
	for i := range in.vm.Spec.DataVolumeTemplates {
		volume := dataVolumeOf(s, &in.vm.Spec.DataVolumeTemplates[i])
		if _, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(ctx, volume, dryRun()); err != nil {
			return fmt.Errorf("CDI refuses it: %w", err)
		}
	}

	// An instancetype is merged into the instance first, which only virt-controller can do.
	if in.vm.Spec.Instancetype != nil {
		return nil
	}

	instance := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *in.vm.Spec.Template.ObjectMeta.DeepCopy(), Spec: in.vm.Spec.Template.Spec}
	instance.Name = in.vm.Name

	if _, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Create(ctx, instance, dryRun()); err != nil {
		return fmt.Errorf("KubeVirt refuses the instance: %w", err)
	}

	return nil
}

// dataVolumeOf converts a template as virt-controller does: it sets the namespace of the clone
// source, and replaces a DataSource by the source that it refers to.
func dataVolumeOf(s *harness.Shoot, template *kubevirtv1.DataVolumeTemplateSpec) *cdiv1beta1.DataVolume {
	volume := &cdiv1beta1.DataVolume{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}

	if ref := volume.Spec.SourceRef; ref != nil && ref.Kind == cdiv1beta1.DataVolumeDataSource && ref.Name != "" {
		volume.Spec.SourceRef = nil
		volume.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{
			Namespace: ptr.Deref(ref.Namespace, ""),
			Name:      "image",
		}}
	}

	if source := volume.Spec.Source; source != nil && source.PVC != nil && source.PVC.Namespace == "" {
		source.PVC.Namespace = s.ProviderNamespace
	}

	if source := volume.Spec.Source; source != nil && source.Snapshot != nil && source.Snapshot.Namespace == "" {
		source.Snapshot.Namespace = s.ProviderNamespace
	}

	return volume
}

// TestAsynchronousFailuresAreRefused checks that the driver's own rules are needed: KubeVirt
// accepts the VirtualMachine, which then fails permanently.
func TestAsynchronousFailuresAreRefused(t *testing.T) {
	t.Parallel()

	const (
		container = `rootVolume: {containerDisk: {image: registry.example.com/worker}}`
		clone     = `rootVolume: {source: {pvc: {name: image}}, storage: {}}`
		sized     = `storage: {resources: {requests: {storage: 1Gi}}}`
		template  = "virtualMachineTemplate.spec.template.spec."
	)

	tests := map[string]struct {
		root string
		yaml string
		// path is the field named in the driver's error.
		path string
		says complaint
	}{
		"no memory":            {container, `memory: null`, "memory.guest", "no memory requested"},
		"memory without unit":  {container, `memory: {guest: "8"}`, "memory.guest", silent},
		"image":                {`rootVolume: {containerDisk: {image: " worker"}}`, `{}`, "rootVolume.containerDisk.image", "whitespace"},
		"two kinds of hyperv":  {container, instance(`domain: {features: {hyperv: {relaxed: {}}, hypervPassthrough: {enabled: true}}}`), template + "domain.features.hypervPassthrough", "HypervPassthrough"},
		"unneeded hyperv":      {container, instance(`domain: {features: {hyperv: {synic: {}, vpindex: {enabled: false}}}}`), template + "domain.features.hyperv.synic", "which was disabled"},
		"watchdog of s390x":    {container, instance(`domain: {devices: {watchdog: {name: a, diag288: {action: reset}}}}`), template + "domain.devices.watchdog.diag288", "only supports I6300ESB"},
		"CPU model":            {container, `cpu: {model: "no model"}`, "cpu.model", "cpu-model.node.kubevirt.io"},
		"CPU feature":          {container, `cpu: {features: [{name: ""}]}`, "cpu.features[0].name", "cpu-feature.node.kubevirt.io"},
		"resource":             {container, `resources: {requests: {gpu: 1}}`, "resources.requests[gpu]", "fully qualified"},
		"shared device":        {container, `resources: {requests: {example.com/gpu: 1}}`, "resources.requests[example.com/gpu]", "Limit must be set"},
		"fraction of a device": {container, `resources: {limits: {example.com/gpu: 500m}}`, "resources.limits[example.com/gpu]", "must be an integer"},
		"request over limit":   {container, `resources: {requests: {ephemeral-storage: 3Gi}, limits: {ephemeral-storage: 2Gi}}`, "resources.requests[ephemeral-storage]", "less than or equal"},
		"shared pages":         {container, `resources: {requests: {hugepages-2Mi: 1Gi}}`, "resources.requests[hugepages-2Mi]", "Limit must be set"},
		"unknown page size":    {container, `resources: {limits: {hugepages-foo: 1Gi}}`, "resources.limits[hugepages-foo]", "hugepages-foo"},
		"negative limit":       {container, `resources: {limits: {ephemeral-storage: -5Gi}}`, "resources.limits[ephemeral-storage]", "greater than or equal to 0"},
		"one Secret for two":   {container, instance(`accessCredentials: [{sshPublicKey: {source: {secret: {secretName: a}}, propagationMethod: {noCloud: {}}}}, {userPassword: {source: {secret: {secretName: a}}, propagationMethod: {qemuGuestAgent: {}}}}]`), template + "accessCredentials[1].userPassword.source.secret.secretName", "Duplicate value"},
		"subdomain":            {container, instance(`subdomain: a.b`), template + "subdomain", "must not contain dots"},
		"KubeVirt's volume":    {container, existing("sockets", `secret: {secretName: a}`), "additionalVolumes[0].name", "Duplicate value"},
		"cloud-init's volume":  {container, existing("cloudinit-udata", `secret: {secretName: a}`), "additionalVolumes[0].name", "Duplicate value"},
		"an empty term":        {container, instance(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}`), template + "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]", silent},
		"GPU":                  {container, instance(`domain: {devices: {gpus: [{name: a, deviceName: gpu}]}}`), template + "domain.devices.gpus[0].deviceName", "fully qualified"},
		"probe's port":         {container, instance(`readinessProbe: {tcpSocket: {port: 0}}`), template + "readinessProbe.tcpSocket.port", "between 1 and 65535"},
		"probe's port's name":  {container, instance(`readinessProbe: {tcpSocket: {port: ssh}}`), template + "readinessProbe.tcpSocket.port", silent},
		"probe's threshold":    {container, instance(`livenessProbe: {tcpSocket: {port: 22}, successThreshold: 3}`), template + "livenessProbe.successThreshold", "must be 1"},
		"probe's command":      {container, instance(`livenessProbe: {exec: {}}`), template + "livenessProbe.exec.command", "Required value"},
		"probe's header":       {container, instance(`readinessProbe: {httpGet: {port: 80, httpHeaders: [{name: "a b", value: c}]}}`), template + "readinessProbe.httpGet.httpHeaders[0].name", "HTTP header"},
		"credentials":          {container, instance(`accessCredentials: [{userPassword: {source: {secret: {secretName: a.b}}, propagationMethod: {qemuGuestAgent: {}}}}]`), template + "accessCredentials[0].userPassword.source.secret.secretName", "must not contain dots"},
		"label":                {container, `virtualMachineTemplate: {spec: {template: {metadata: {labels: {a b: c}}}}}`, "virtualMachineTemplate.spec.template.metadata.labels", "Invalid value"},
		"toleration":           {container, instance(`tolerations: [{operator: Equal}]`), template + "tolerations[0].operator", "Invalid value"},
		"priority":             {container, instance(`priorityClassName: A b`), template + "priorityClassName", "Class"},
		"volume strategy":      {container, `virtualMachineTemplate: {spec: {updateVolumesStrategy: Copy}}`, "virtualMachineTemplate.spec.updateVolumesStrategy", unknownStrategy.Get(t)},
		"instancetype's kind":  {container, `{memory: null, virtualMachineTemplate: {spec: {instancetype: {kind: Type, name: worker}}}}`, "virtualMachineTemplate.spec.instancetype.kind", "unexpected kind"},
		"pod network":          {container, `networks: [{pod: {vmNetworkCIDR: 10.0.0.0}, masquerade: {}}]`, "networks[0].pod.vmNetworkCIDR", silent},
		"SR-IOV without card":  {container, `networks: [{pod: {}, sriov: {}}]`, "networks[0].sriov", silent},
		"network's namespace":  {container, `{zone: zone-a, networks: [{name: a.b/c}]}`, "networks[0].name", unknownNetwork.Get(t)},
		"claim's name":         {container, existing("a", `persistentVolumeClaim: {claimName: A}`), "additionalVolumes[0].volumeSource.persistentVolumeClaim.claimName", "does not exist"},
		"config map's name":    {container, existing("a", `configMap: {name: A}`), "additionalVolumes[0].volumeSource.configMap.name", silent},
		"no size":              {`rootVolume: {source: {http: {url: "https://h/i"}}, storage: {}}`, `{}`, "rootVolume.storage.resources.requests[storage]", "size is missing"},
		"tiny":                 {`rootVolume: {source: {pvc: {name: image}}, storage: {resources: {requests: {storage: 1Ki}}}}`, `{}`, "rootVolume.storage.resources.requests[storage]", "at least 1MiB"},
		"access mode":          {`rootVolume: {source: {pvc: {name: image}}, pvc: {resources: {requests: {storage: 1Gi}}}}`, `{}`, "rootVolume.pvc.accessModes", "access mode is required"},
		"URL":                  {`rootVolume: {source: {http: {url: "s3://b/i"}}, ` + sized + `}`, `{}`, "rootVolume.source.http.url", "URL scheme"},
		"registry":             {`rootVolume: {source: {registry: {url: "registry.example.com/worker"}}, ` + sized + `}`, `{}`, "rootVolume.source.registry.url", "URL scheme"},
		"image stream":         {`rootVolume: {source: {registry: {imageStream: a}}, ` + sized + `}`, `{}`, "rootVolume.source.registry.pullMethod", "node pull"},
		"imageio":              {`rootVolume: {source: {imageio: {url: "https://h", diskId: d, secretRef: s}}, ` + sized + `}`, `{}`, "rootVolume.source.imageio.certConfigMap", "CertConfigMap"},
		"vddk":                 {`rootVolume: {source: {vddk: {url: "https://h", uuid: u, backingFile: f, secretRef: s}}, ` + sized + `}`, `{}`, "rootVolume.source.vddk.thumbprint", "VDDK is not valid"},
		"DataSource":           {`rootVolume: {sourceRef: {kind: Image, name: a}, storage: {}}`, `{}`, "rootVolume.sourceRef.kind", "sourceRef"},
		"archive":              {`rootVolume: {source: {registry: {url: "docker://h/i"}}, contentType: archive, ` + sized + `}`, `{}`, "rootVolume.contentType", "ContentType"},
		"empty disk":           {`rootVolume: {source: {blank: {}}, ` + sized + `}`, `{}`, "rootVolume.source.blank", silent},
		"upload":               {`rootVolume: {source: {upload: {}}, ` + sized + `}`, `{}`, "rootVolume.source.upload", silent},
		"annotation": {
			clone, `rootVolume: {annotations: {cdi.kubevirt.io/storage.bind.immediate.requested: "true"}}`,
			"rootVolume.annotations[cdi.kubevirt.io/storage.bind.immediate.requested]", silent,
		},
	}

	s := harness.NewShoot(t)
	s.MakeInstancetype(t)

	names := slices.Sorted(maps.Keys(tests))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := tree{}
			// CDI's refusal of a golden image reaches the driver at once.
			for _, part := range []string{baseSpec, `{memory: {guest: 1Gi}, disablePreAllocatedDataVolumes: true}`, tc.root, tc.yaml} {
				merge(spec, read(t, rand.New(rand.NewPCG(1, 1)), part))
			}

			in := inputOf(s, fmt.Sprintf("pool-%d", slices.Index(names, name)), encode(t, spec))
			require.Len(t, in.faults, 1)
			require.Equal(t, "providerSpec."+tc.path, in.faults[0].Field)

			for _, secret := range render.Secrets(in.machine, s.ProviderNamespace) {
				_, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), secret, metav1.CreateOptions{})
				require.NoError(t, err)
			}

			_, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), in.vm, metav1.CreateOptions{})
			if refusal := refusedAtOnce.Get(t)[name]; refusal != "" {
				require.ErrorContains(t, err, refusal)

				return
			}

			require.NoError(t, err, "the driver needs no rule for a spec that KubeVirt refuses at once")

			tc.says.await(t, s, in.vm.Name)
		})
	}
}
