// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// consoleContainer is the container that writes a guest's serial console to its log
// (kubevirt.io/kubevirt/pkg/virt-controller/services/serialconsolelog.go).
const consoleContainer = "guest-console-log"

// readGuest reads what virt-handler and the guest itself report about a guest, with at most six requests.
// virt-handler's events are read by name: they may be about earlier instances of a guest that crashes.
func (r *reader) readGuest(ctx context.Context, seen *diagnose.Evidence, showLines bool) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	seen.Events = r.eventsOf(ctx, fields.Set{
		"involvedObject.kind": kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind,
		"involvedObject.name": seen.Instance.Name,
		"type":                corev1.EventTypeWarning,
	})

	pod := consolePod(seen)

	switch {
	case pod == nil && len(seen.Pods) == 0: // They could not be read, or there are none.
		return
	case !r.may(ctx, &authorizationv1.ResourceAttributes{Verb: "get", Namespace: r.clients.Namespace, Resource: "pods", Subresource: "log"}):
		r.addUnread(spi.Errorf(spi.ErrForbidden, "read the guest's console: not permitted; kubernetes/diagnose grants it"))

		return
	case pod == nil:
		r.addUnread(spi.Errorf(spi.ErrPrecondition, "the guest's console: no launcher pod logs it; KubeVirt logs those of new machines unless disableSerialConsoleLog of its configuration, logSerialConsole of the MachineClass or --log-serial-console says otherwise"))

		return
	}

	log, end, err := r.clients.Log(ctx, pod.Name, consoleContainer)
	if err != nil {
		r.addUnread(spi.During("read the guest's console", providerapi.Explain(err)))

		return
	}

	seen.Console = &diagnose.Console{
		Pod:       spi.ObjectName{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
		Log:       log,
		End:       end,
		ShowLines: showLines,
	}
}

// consolePod returns the launcher pod on the instance's node that logs the console, or nil.
func consolePod(seen *diagnose.Evidence) *corev1.Pod {
	at := slices.IndexFunc(seen.Pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == seen.Instance.Status.NodeName && slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool {
			return c.Name == consoleContainer
		})
	})
	if at < 0 {
		return nil
	}

	return &seen.Pods[at]
}
