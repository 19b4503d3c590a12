// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package behaviour declares the latencies and faults of the simulation, which tests set by annotations and labels on the
// provider cluster's objects.
//
// Every part of the data plane calls it, and tests use its names. It must not depend on who obeys them.
package behaviour

import (
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Annotations of a provider Namespace. Each holds a Go duration ("0s", "1.5s", "3m") and applies to
// all objects in the namespace. API timestamps have a resolution of one second, so a latency may
// end up to a second early: use at least 2s where a test must observe the intermediate state. A
// changed annotation also applies to operations in progress.
const (
	// ImportLatencyAnnotation delays the completion of importer pods (http and registry sources).
	ImportLatencyAnnotation = "sim.lab/import-latency"
	// CloneLatencyAnnotation delays host-assisted copy pods and the provisioning of CSI clones.
	CloneLatencyAnnotation = "sim.lab/clone-latency"
	// ProvisionLatencyAnnotation delays the provisioning of empty volumes.
	ProvisionLatencyAnnotation = "sim.lab/provision-latency"
	// BootLatencyAnnotation delays a VirtualMachineInstance between Scheduled and Running.
	BootLatencyAnnotation = "sim.lab/boot-latency"
	// JoinLatencyAnnotation delays AgentConnected, and the guest's Node in the target
	// cluster, after Running.
	JoinLatencyAnnotation = "sim.lab/join-latency"
	// ShutdownLatencyAnnotation delays Succeeded after the deletion of a VirtualMachineInstance or
	// its launcher pod. A shutdown that exceeds the VirtualMachineInstance's termination grace
	// period ends with Failed.
	ShutdownLatencyAnnotation = "sim.lab/shutdown-latency"
	// MigrationLatencyAnnotation sets the duration of a live migration.
	MigrationLatencyAnnotation = "sim.lab/migration-latency"
)

const (
	// ImportFaultAnnotation makes the importer pods of a provider Namespace fail with
	// this termination message.
	ImportFaultAnnotation = "sim.lab/import-fault"
	// ImportOutOfMemory is the value of ImportFaultAnnotation for importers that are killed for their
	// memory limit, without a message.
	ImportOutOfMemory = "OOMKilled"
)

// Latencies of namespaces without (valid) annotations.
const (
	// DefaultImportLatency is used without a valid ImportLatencyAnnotation.
	DefaultImportLatency = 500 * time.Millisecond
	// DefaultCloneLatency is used without a valid CloneLatencyAnnotation.
	DefaultCloneLatency = 300 * time.Millisecond
	// DefaultProvisionLatency is used without a valid ProvisionLatencyAnnotation.
	DefaultProvisionLatency = 200 * time.Millisecond
	// DefaultBootLatency is used without a valid BootLatencyAnnotation.
	DefaultBootLatency = 300 * time.Millisecond
	// DefaultJoinLatency is used without a valid JoinLatencyAnnotation.
	DefaultJoinLatency = 500 * time.Millisecond
	// DefaultShutdownLatency is used without a valid ShutdownLatencyAnnotation.
	DefaultShutdownLatency = 500 * time.Millisecond
	// DefaultMigrationLatency is used without a valid MigrationLatencyAnnotation.
	DefaultMigrationLatency = 500 * time.Millisecond
)

// FaultAnnotation holds Faults, separated by commas, on a VirtualMachineInstance (or on the
// template of its VirtualMachine).
const FaultAnnotation = "sim.lab/fault"

// Fault is a value of FaultAnnotation.
type Fault string

const (
	// FaultCrash makes the VirtualMachineInstance fail instead of booting, or while it runs.
	FaultCrash Fault = "crash"
	// FaultLauncherKilled kills the launcher of a running guest, which virt-handler notices late.
	FaultLauncherKilled Fault = "launcher-killed"
	// FaultImagePull keeps the launcher pod in ErrImagePull and ImagePullBackOff.
	FaultImagePull Fault = "image-pull"
	// FaultNoBoot keeps the VirtualMachineInstance in phase Scheduled.
	FaultNoBoot Fault = "no-boot"
	// FaultSyncFailed keeps the VirtualMachineInstance in phase Scheduled, with virt-handler's condition
	// and its events.
	FaultSyncFailed Fault = "sync-failed"
	// FaultNoAgent boots the guest without a guest agent: AgentConnected never appears.
	FaultNoAgent Fault = "no-agent"
	// FaultNoJoin boots the guest, but its kubelet never registers.
	FaultNoJoin Fault = "no-join"
	// FaultStuckShutdown ignores the shutdown request until the termination grace period expires;
	// then the VirtualMachineInstance is Failed.
	FaultStuckShutdown Fault = "stuck-shutdown"
	// FaultMigrationFails fails every live migration of the guest, after the migration latency.
	FaultMigrationFails Fault = "migration-fails"
	// FaultMigrationHangs keeps every live migration of the guest running until it is aborted.
	FaultMigrationHangs Fault = "migration-hangs"
)

const (
	// StuckKey is a label or annotation of a pod. With the value "true" the kubelet neither
	// starts nor stops the pod.
	StuckKey = "sim.lab/stuck"
	// DownLabel is a label of a provider Node. With the value "true" the node is
	// dead: its heartbeats, pods, VirtualMachineInstances and guests make no progress
	// until the label is removed. Then it boots, and the guests that it ran have ended.
	DownLabel = "sim.lab/down"
	// BootedAnnotation is the time in RFC 3339 at which a node has booted again. The simulation sets it.
	BootedAnnotation = "sim.lab/booted"
)

// Fixed intervals and delays of the simulation.
const (
	HeartbeatInterval = 10 * time.Second // kubelet's lease renewal, virt-handler's heartbeat
	PollInterval      = time.Second      // for waiting on an object without events
	PodLatency        = 300 * time.Millisecond
	AddressLatency    = 3 * time.Second // virt-handler's, after a migration
	GateLatency       = 2 * time.Second // kubelet's, after a readiness gate has opened
	// WatchdogLatency is virt-handler's for launchers that do not answer: it looks every 11 s, and waits for 30 s.
	WatchdogLatency = 33 * time.Second
)

// usualLatency returns the default of a latency annotation.
func usualLatency(annotation string) time.Duration {
	switch annotation {
	case ImportLatencyAnnotation:
		return DefaultImportLatency
	case CloneLatencyAnnotation:
		return DefaultCloneLatency
	case ProvisionLatencyAnnotation:
		return DefaultProvisionLatency
	case BootLatencyAnnotation:
		return DefaultBootLatency
	case JoinLatencyAnnotation:
		return DefaultJoinLatency
	case ShutdownLatencyAnnotation:
		return DefaultShutdownLatency
	case MigrationLatencyAnnotation:
		return DefaultMigrationLatency
	default:
		return 0
	}
}

// latencyFrom reads one latency of a namespace. Anything but a non-negative
// duration counts as absent.
func latencyFrom(annotations map[string]string, annotation string) time.Duration {
	d, err := time.ParseDuration(annotations[annotation])
	if err != nil || d < 0 {
		return usualLatency(annotation)
	}
	return d
}

// Remaining returns the remainder of a latency that began at since; zero when it has elapsed.
func Remaining(now, since time.Time, latency time.Duration) time.Duration {
	return max(0, since.Add(latency).Sub(now))
}

// Reader looks up the latencies and faults of namespaces.
type Reader struct {
	Namespaces corelisters.NamespaceLister
}

// Latency returns the namespace's value of a latency annotation.
func (b Reader) Latency(namespace, annotation string) time.Duration {
	ns, err := b.Namespaces.Get(namespace)
	if err != nil {
		return usualLatency(annotation)
	}
	return latencyFrom(ns.Annotations, annotation)
}

// ImportFault returns the namespace's value of ImportFaultAnnotation.
func (b Reader) ImportFault(namespace string) string {
	ns, err := b.Namespaces.Get(namespace)
	if err != nil {
		return ""
	}
	return ns.Annotations[ImportFaultAnnotation]
}

// HasFault reports whether an object has a fault.
func HasFault(object metav1.Object, fault Fault) bool {
	return slices.Contains(strings.Split(object.GetAnnotations()[FaultAnnotation], ","), string(fault))
}

// IsStuck reports whether a pod is marked with StuckKey.
func IsStuck(pod metav1.Object) bool {
	return pod.GetLabels()[StuckKey] == "true" || pod.GetAnnotations()[StuckKey] == "true"
}

// IsDown reports whether a provider Node is marked with DownLabel.
func IsDown(node metav1.Object) bool {
	return node.GetLabels()[DownLabel] == "true"
}

// BootedAt returns when a provider Node has booted again, or the zero time.
func BootedAt(node metav1.Object) time.Time {
	at, err := time.Parse(time.RFC3339, node.GetAnnotations()[BootedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// IsMissingImage reports whether an image reference, with or without a
// scheme, is named ".../missing".
func IsMissingImage(reference string) bool {
	base := path.Base(reference)
	name, _, _ := strings.Cut(base, "@")
	name, _, _ = strings.Cut(name, ":")
	return strings.Contains(reference, "/") && name == "missing"
}
