// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"
)

// TestDecode_LateRefusals uses settings that KubeVirt accepts in a VirtualMachine, but with which it never
// starts.
func TestDecode_LateRefusals(t *testing.T) {
	t.Parallel()

	const (
		root     = "rootVolume: {source: {pvc: {name: image}}, storage: {}}\n"
		instance = "virtualMachineTemplate.spec.template.spec."
	)

	// instance are fields of the template's VirtualMachineInstance, more are other fields of the
	// spec.
	tests := map[string]struct {
		instance string
		more     string
		want     []string
	}{
		"HypervTwice":     {instance: `domain: {features: {hyperv: {}, hypervPassthrough: {}}}`, want: []string{instance + "domain.features.hypervPassthrough"}},
		"HypervNeeds":     {instance: `domain: {features: {hyperv: {synic: {}, synictimer: {}, vpindex: {enabled: false}}}}`, want: []string{instance + "domain.features.hyperv.synic"}},
		"HypervNotNeeded": {instance: `domain: {features: {hyperv: {evmcs: {enabled: false}, vapic: {enabled: false}, synic: {}}}}`},
		"Watchdog":        {instance: `domain: {devices: {watchdog: {name: a, diag288: {action: reset}}}}`, want: []string{instance + "domain.devices.watchdog.diag288"}},
		"WatchdogOfS390x": {instance: `architecture: s390x, domain: {devices: {watchdog: {name: a, diag288: {action: reset}}}}`},
		"WatchdogOnArm":   {instance: `architecture: arm64, domain: {devices: {watchdog: {name: a, i6300esb: {}}}}`, want: []string{instance + "domain.devices.watchdog.i6300esb"}},
		"CPUNames": {
			instance: `domain: {cpu: {model: "a b", features: [{name: ""}, {name: a/b}]}}`,
			want:     []string{instance + "domain.cpu.model", instance + "domain.cpu.features[0].name", instance + "domain.cpu.features[1].name"},
		},
		"Devices": {
			instance: `domain: {devices: {gpus: [{name: a, deviceName: gpu}], hostDevices: [{name: a, deviceName: "example.com/a b"}]}}`,
			want:     []string{instance + "domain.devices.gpus[0].deviceName", instance + "domain.devices.hostDevices[0].deviceName"},
		},
		"Resources": {
			more: `resources: {requests: {gpu: 1, storage: 1Gi, example.com/a: 1, example.com/b: 1500m, ephemeral-storage: 2Gi}, limits: {example.com/c: 1, ephemeral-storage: 1Gi}}`,
			want: []string{
				"resources.requests[gpu]", "resources.requests[storage]", "resources.requests[example.com/a]", "resources.requests[example.com/b]",
				"resources.requests[example.com/b]", "resources.requests[ephemeral-storage]",
			},
		},
		"ResourcesInTemplate": {instance: `domain: {resources: {limits: {gpu: 1}}}`, want: []string{instance + "domain.resources.limits[gpu]"}},
		"ProbePorts": {
			instance: `readinessProbe: {tcpSocket: {port: 0}}, livenessProbe: {httpGet: {port: web, httpHeaders: [{name: "a b"}]}, successThreshold: 2}`,
			want: []string{
				instance + "readinessProbe.tcpSocket.port", instance + "livenessProbe.httpGet.port",
				instance + "livenessProbe.httpGet.httpHeaders[0].name", instance + "livenessProbe.successThreshold",
			},
		},
		"ProbeThreshold": {instance: `livenessProbe: {exec: {command: [a]}, successThreshold: 1}`},
		"ProbeCommand":   {instance: `readinessProbe: {exec: {}}`, want: []string{instance + "readinessProbe.exec.command"}},
		"Credentials": {
			instance: `accessCredentials: [{userPassword: {source: {secret: {secretName: a.b}}, propagationMethod: {}}}, {sshPublicKey: {source: {secret: {secretName: A}}, propagationMethod: {}}}]`,
			want: []string{
				instance + "accessCredentials[0].userPassword.source.secret.secretName", instance + "accessCredentials[1].sshPublicKey.source.secret.secretName",
			},
		},
		"GracePeriod":         {instance: `terminationGracePeriodSeconds: 240`},
		"NoGracePeriod":       {instance: `terminationGracePeriodSeconds: 0`},
		"LongGracePeriod":     {instance: `terminationGracePeriodSeconds: 241`, want: []string{instance + "terminationGracePeriodSeconds"}},
		"NegativeGracePeriod": {instance: `terminationGracePeriodSeconds: -1`, want: []string{instance + "terminationGracePeriodSeconds"}},
		"Scheduler":           {instance: `schedulerName: A`, want: []string{instance + "schedulerName"}},
		"Enumerations": {
			more: `virtualMachineTemplate: {spec: {updateVolumesStrategy: Copy, instancetype: {kind: Instancetype, name: a}, preference: {kind: VirtualMachineInstancetype, name: a}}}`,
			want: []string{
				"virtualMachineTemplate.spec.updateVolumesStrategy", "virtualMachineTemplate.spec.instancetype.kind", "virtualMachineTemplate.spec.preference.kind",
			},
		},
		"KindsInAnyCase": {more: `virtualMachineTemplate: {spec: {instancetype: {kind: virtualmachineinstancetypes, name: a}}}`},
		"PodNetworks": {
			more: `networks: [{pod: {vmNetworkCIDR: 10.0.0.0/31, vmIPv6NetworkCIDR: 10.0.0.0/24}, masquerade: {}}, {name: a.b/c}]`,
			want: []string{"networks[0].pod.vmNetworkCIDR", "networks[0].pod.vmIPv6NetworkCIDR", "networks[1].name"},
		},
		"FunctionsOfPodNetwork": {more: `networks: [{pod: {}, sriov: {}}]`, want: []string{"networks[0].sriov"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			more := tc.more
			if tc.instance != "" {
				more = "virtualMachineTemplate: {spec: {template: {spec: {" + tc.instance + "}}}}"
			}

			requireFaults(t, asJSON(t, root+more), tc.want, "it never starts")
		})
	}
}

func TestValidateContainerDisk(t *testing.T) {
	t.Parallel()
	requireFaults(t, withRoot(t, `{containerDisk: {image: " a", imagePullSecret: A}}`),
		[]string{"rootVolume.containerDisk.image", "rootVolume.containerDisk.imagePullSecret"}, "Kubernetes refuses the pod")
}
