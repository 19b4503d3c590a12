// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

var deviceFeatures = []feature{
	{name: "root-disk", yaml: `devices: {disks: [{name: root-disk, bootOrder: <1|2>, cache: <none|writethrough|writeback>, disk: {bus: <virtio|scsi|sata>}}]}`},
	{name: "root-disk/io-thread", yaml: `devices: {disks: [{name: root-disk, dedicatedIOThread: true, io: threads, disk: {bus: virtio, pciAddress: "0000:81:01.0"}}]}`},
	{name: "rng", yaml: `devices: {rng: {}}`},
	{name: "block-multi-queue", yaml: `devices: {blockMultiQueue: true}`},
	{name: "network-multi-queue", yaml: `devices: {<networkInterfaceMultiQueue|networkInterfaceMultiqueue>: true}`},
	{name: "golden/size", yaml: `goldenImage: {size: 5Gi}`, without: []string{"root/clone", "root/container"}},
	{name: "golden/none", yaml: `disablePreAllocatedDataVolumes: true`},
	{name: "cpu/topology", yaml: `cpu: {sockets: <1|2>, cores: <1|2|4>, threads: <1|2>}`},
	{name: "cpu/hotplug", yaml: `cpu: {sockets: 2, maxSockets: 8}`},
	{name: "cpu/model", yaml: `cpu: {cores: 2, model: <host-model|host-passthrough|Haswell>}`},
	{name: "cpu/features", yaml: `cpu: {cores: 2, features: [{name: apic, policy: <require|optional|disable>}, {name: pcid}]}`},
	{name: "cpu/template", yaml: instance(`domain: {cpu: {cores: 3}}`)},
	{name: "resources/cpu", yaml: `resources: {requests: {cpu: <500m|2>}}`},
	{name: "resources/cpu-limit", yaml: `resources: {requests: {cpu: "1"}, limits: {cpu: "2"}}`},
	{name: "resources/storage", yaml: `resources: {requests: {ephemeral-storage: 1Gi}, limits: {ephemeral-storage: 2Gi}}`},
	{name: "tpm", yaml: instance(`domain: {devices: {tpm: <{}|{persistent: true}|{enabled: false}>}}`)},
	{name: "watchdog", yaml: instance(`domain: {devices: {watchdog: {name: dog, i6300esb: {action: <poweroff|reset|shutdown>}}}}`)},
	{name: "gpus", yaml: instance(`domain: {devices: {gpus: [{name: gpu, deviceName: nvidia.com/GV100GL_Tesla_V100}]}}`)},
	{name: "sound", yaml: instance(`domain: {devices: {sound: {name: sound, model: <ich9|ac97>}}}`)},
	{name: "inputs", yaml: instance(`domain: {devices: {inputs: [{name: tablet, type: tablet, bus: <virtio|usb>}], autoattachInputDevice: true}}`)},
	{
		name: "attached",
		yaml: instance(`domain: {devices: {autoattachGraphicsDevice: <true|false>, autoattachSerialConsole: true, logSerialConsole: false,
		autoattachMemBalloon: <true|false>, autoattachPodInterface: false, autoattachVSOCK: false, useVirtioTransitional: <true|false>}}`),
	},
	{name: "hotplug", yaml: instance(`domain: {devices: {disableHotplug: true}}`)},
	{name: "io-threads", yaml: instance(`domain: {ioThreadsPolicy: <shared|auto>}`)},
	{name: "io-threads/pool", yaml: instance(`domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 4}}`)},
}

var networkFeatures = []feature{
	{name: "primary/pod", yaml: `networks: [{pod: {}, <bridge|masquerade>: {}, model: <virtio|e1000e|rtl8139>}]`},
	{name: "primary/pod-bare", yaml: `networks: [{pod: {}}]`},
	{name: "primary/pod-migration", yaml: `networks: [{pod: {allowBridgeLiveMigration: true}}]`},
	{name: "primary/pod-cidr", yaml: `networks: [{pod: {vmNetworkCIDR: 10.1.2.0/24, vmIPv6NetworkCIDR: "fd10:1:2::/120"}, masquerade: {}}]`},
	{name: "primary/multus", yaml: `networks: [{name: <primary|other/primary>, default: true}]`},
	{name: "secondary-bridge", yaml: `networks: [{name: storage, mac: Stable, model: <virtio|igb>}]`},
	{name: "secondary-bridge-explicit", yaml: `networks: [{name: other/lan, bridge: {}, sha: 4e1243bd22c66e76c2ba9eddc1f91394e57f9f83}]`},
	{name: "secondary-sriov", yaml: `networks: [{name: fast, sriov: {}}]`},
	{name: "dns/none", yaml: `{dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: "2"}]}}`},
	{name: "dns/policy", yaml: `dnsPolicy: <Default|ClusterFirst|ClusterFirstWithHostNet>`},
	{name: "dns/config", yaml: `dnsConfig: {nameservers: [192.0.2.53]}`},
}

var guestFeatures = []feature{
	{name: "cloud-init/type", yaml: `cloudInit: {type: <NoCloud|ConfigDrive>}`},
	{name: "cloud-init/network-data", yaml: `cloudInit: {type: NoCloud, networkData: "version: 2\nethernets: {}\n"}`},
	{name: "cloud-init/config-drive", yaml: `cloudInit: {type: ConfigDrive, networkData: "{}"}`},
	{name: "ssh-keys/keys", yaml: `sshKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxX someone@example.com", "ssh-rsa AAAAB3NzaC1yc2E="]`},
	{name: "ssh-keys/credentials", yaml: instance(`accessCredentials: [{userPassword: {source: {secret: {secretName: passwords}}, propagationMethod: {qemuGuestAgent: {}}}}]`)},
	{name: "type-meta", yaml: `{apiVersion: kubevirt.machine.gardener.cloud/v1alpha1, kind: ProviderSpec}`},
	{name: "tags", yaml: `tags: {mcm.gardener.cloud/machineclass: pool-z1-5f4d8, example.com/team: a}`},
	{name: "firmware/efi", yaml: instance(`domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}`)},
	{name: "firmware/secure-boot", yaml: instance(`domain: {firmware: {bootloader: {efi: {secureBoot: true, persistent: <true|false>}}}, features: {smm: {enabled: true}}}`)},
	{name: "firmware/bios", yaml: instance(`domain: {firmware: {bootloader: {bios: {useSerial: true}}}}`)},
	{name: "clock", yaml: instance(`domain: {clock: {<utc: {offsetSeconds: 60}|timezone: Europe/Berlin|utc: {}>, timer: {hpet: {present: false}, rtc: {tickPolicy: catchup}, pit: {tickPolicy: delay}, kvm: {present: true}}}}`)},
	{name: "features", yaml: instance(`domain: {features: {acpi: {}, apic: {endOfInterrupt: true}, kvm: {hidden: true}, pvspinlock: {enabled: false}}}`)},
	{name: "hyperv/explicit", yaml: instance(`domain: {features: {hyperv: {relaxed: {}, vapic: {}, spinlocks: {spinlocks: 8191}, <vpindex: {}|synic: {}|ipi: {}|reset: {}>}}}`)},
	{name: "hyperv/passthrough", yaml: instance(`domain: {features: {hypervPassthrough: {enabled: true}}}`)},
	{name: "machine", yaml: instance(`domain: {machine: {type: q35}, chassis: {manufacturer: Example, asset: "1"}}`)},
	{name: "readiness", yaml: instance(`readinessProbe: {<httpGet: {port: 10250}|tcpSocket: {port: 22}>, initialDelaySeconds: 30, periodSeconds: 10}`), without: []string{"primary/multus"}},
	{name: "liveness", yaml: instance(`livenessProbe: {<exec: {command: ["true"]}|guestAgentPing: {}>, failureThreshold: 10, timeoutSeconds: 5}`)},
}

var placementFeatures = []feature{
	{name: "node-selector", yaml: instance(`nodeSelector: {kubernetes.io/os: linux, example.com/pool: ""}`)},
	{name: "tolerations", yaml: instance(`tolerations: [{key: dedicated, operator: Equal, value: workers, effect: NoSchedule}, {operator: Exists, effect: NoExecute, tolerationSeconds: 60}]`)},
	{name: "priority", yaml: instance(`priorityClassName: system-cluster-critical`)},
	{name: "scheduler", yaml: instance(`schedulerName: other-scheduler`)},
	{name: "spread/none", yaml: instance(`topologySpreadConstraints: []`)},
	{name: "spread/zones", yaml: instance(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: <DoNotSchedule|ScheduleAnyway>, labelSelector: {matchLabels: {a: b}}}]`)},
	{name: "affinity/nodes", yaml: instance(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}`)},
	{name: "affinity/preferred", yaml: instance(`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: ssd, operator: In, values: ["yes"]}]}}]}}`)},
	{name: "affinity/pods", yaml: instance(`affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}}]}}`)},
}

var templateFeatures = []feature{
	{name: "run-strategy/always", yaml: `virtualMachineTemplate: {spec: {runStrategy: <Always|RerunOnFailure>}}`, without: []string{"root/container"}},
	{name: "run-strategy/once", yaml: `virtualMachineTemplate: {spec: {runStrategy: Once}}`},
	{name: "eviction", yaml: instance(`evictionStrategy: <None|LiveMigrateIfPossible>`)},
	{name: "preference", yaml: `virtualMachineTemplate: {spec: {preference: {kind: VirtualMachinePreference, name: <worker|missing>}}}`},
	{name: "metadata", yaml: `virtualMachineTemplate: {metadata: {labels: {example.com/a: b}, annotations: {example.com/long: "a text, with spaces"}}}`},
	{name: "instance-metadata", yaml: `virtualMachineTemplate: {spec: {template: {metadata: {labels: {app: worker}, annotations: {kubevirt.io/allow-pod-bridge-network-live-migration: ""}}}}}`},
	{name: "grace", yaml: instance(`terminationGracePeriodSeconds: <0|240>`)},
	{name: "subdomain", yaml: instance(`subdomain: workers`)},
	{name: "architecture", yaml: instance(`architecture: amd64`)},
	{name: "volume-strategy", yaml: `virtualMachineTemplate: {spec: {updateVolumesStrategy: <Replacement|Migration>}}`},
}
