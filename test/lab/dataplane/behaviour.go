package dataplane

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Annotations of a provider Namespace. Each holds a Go duration ("0s", "1.5s", "3m") and applies to everything in the
// namespace. API timestamps have whole seconds, so that a latency may end up to a second early: use at least 2s where a
// test must see the state in between. A changed annotation applies to what is under way.
const (
	// ImportLatencyAnnotation delays the end of importer pods (http and registry sources).
	ImportLatencyAnnotation = "sim.lab/import-latency"
	// CloneLatencyAnnotation delays host-assisted copy pods and the provisioning of volumes cloned by the CSI driver.
	CloneLatencyAnnotation = "sim.lab/clone-latency"
	// ProvisionLatencyAnnotation delays the provisioning of empty volumes.
	ProvisionLatencyAnnotation = "sim.lab/provision-latency"
	// BootLatencyAnnotation delays a VirtualMachineInstance between Scheduled and Running.
	BootLatencyAnnotation = "sim.lab/boot-latency"
	// JoinLatencyAnnotation delays AgentConnected, and the guest's Node in the target cluster, after Running.
	JoinLatencyAnnotation = "sim.lab/join-latency"
	// ShutdownLatencyAnnotation delays Succeeded after the deletion of a VirtualMachineInstance or its launcher pod.
	// A shutdown that outlasts the VirtualMachineInstance's termination grace period ends with Failed.
	ShutdownLatencyAnnotation = "sim.lab/shutdown-latency"
	// MigrationLatencyAnnotation delays the end of a live migration after its start.
	MigrationLatencyAnnotation = "sim.lab/migration-latency"
)

// ImportFaultAnnotation of a provider Namespace makes its importer pods fail with this termination message.
const ImportFaultAnnotation = "sim.lab/import-fault"

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

// FaultAnnotation of a VirtualMachineInstance (or of the template of its VirtualMachine) holds a Fault.
const FaultAnnotation = "sim.lab/fault"

// Fault is a value of FaultAnnotation.
type Fault string

const (
	// FaultCrash fails the VirtualMachineInstance instead of booting it.
	FaultCrash Fault = "crash"
	// FaultImagePull keeps the launcher pod in ErrImagePull and ImagePullBackOff.
	FaultImagePull Fault = "image-pull"
	// FaultNoBoot keeps the VirtualMachineInstance Scheduled.
	FaultNoBoot Fault = "no-boot"
	// FaultNoAgent boots the guest without a guest agent: AgentConnected never appears.
	FaultNoAgent Fault = "no-agent"
	// FaultNoJoin boots the guest, whose kubelet never registers.
	FaultNoJoin Fault = "no-join"
	// FaultStuckShutdown ignores the shutdown request until the termination grace period is over; then it is Failed.
	FaultStuckShutdown Fault = "stuck-shutdown"
	// FaultMigrationFails fails every live migration of the guest, after the migration latency.
	FaultMigrationFails Fault = "migration-fails"
	// FaultMigrationHangs keeps every live migration of the guest running until it is aborted.
	FaultMigrationHangs Fault = "migration-hangs"
)

const (
	// StuckKey is a label or annotation of a pod. With the value "true" its kubelet neither starts nor ends it.
	StuckKey = "sim.lab/stuck"
	// DownLabel is a label of a provider Node. With the value "true" the node is dead: its heartbeats, pods,
	// VirtualMachineInstances and guests stand still until the label goes.
	DownLabel = "sim.lab/down"
)

// Fixed paces of the simulated parts.
const (
	heartbeatInterval  = 10 * time.Second // kubelet's lease renewal, virt-handler's heartbeat
	registrationDelay  = 10 * time.Second // a running guest registers its deleted Node again
	pollInterval       = time.Second      // waiting for an object of which no event is seen
	podLatency         = 300 * time.Millisecond
	imagePullBackOff   = 10 * time.Second
	crashLoopBackOff   = 10 * time.Second
	maxCrashBackOff    = 5 * time.Minute
	defaultGracePeriod = 30 * time.Second // KubeVirt's terminationGracePeriodSeconds
)

// usualLatency returns the latency that an annotation stands for where it is absent.
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

// latencyFrom reads one latency of a namespace. Anything but a duration of zero or more counts as absent.
func latencyFrom(annotations map[string]string, annotation string) time.Duration {
	d, err := time.ParseDuration(annotations[annotation])
	if err != nil || d < 0 {
		return usualLatency(annotation)
	}
	return d
}

// remaining returns how much of a latency that began at since is left, and zero when it is over.
func remaining(now, since time.Time, latency time.Duration) time.Duration {
	return max(0, since.Add(latency).Sub(now))
}

// behaviour answers how things go in a namespace.
type behaviour struct {
	namespaces corelisters.NamespaceLister
}

// latency returns the namespace's value of a latency annotation.
func (b behaviour) latency(namespace, annotation string) time.Duration {
	ns, err := b.namespaces.Get(namespace)
	if err != nil {
		return usualLatency(annotation)
	}
	return latencyFrom(ns.Annotations, annotation)
}

// importFault returns the namespace's value of ImportFaultAnnotation.
func (b behaviour) importFault(namespace string) string {
	ns, err := b.namespaces.Get(namespace)
	if err != nil {
		return ""
	}
	return ns.Annotations[ImportFaultAnnotation]
}

// hasFault tells whether an object carries a fault.
func hasFault(object metav1.Object, fault Fault) bool {
	return Fault(object.GetAnnotations()[FaultAnnotation]) == fault
}

// isStuck tells whether a pod is marked with StuckKey.
func isStuck(pod metav1.Object) bool {
	return pod.GetLabels()[StuckKey] == "true" || pod.GetAnnotations()[StuckKey] == "true"
}

// isDown tells whether a provider Node is marked with DownLabel.
func isDown(node metav1.Object) bool {
	return node.GetLabels()[DownLabel] == "true"
}
