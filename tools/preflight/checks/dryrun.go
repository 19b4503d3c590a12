// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// dropped and webhook are the names of the checks that the dry run also makes.
	dropped = "dropped-fields"
	webhook = "webhook"
)

// checkDryRun sends a dry-run create for each object that the driver would create, with the
// driver's identity and in the driver's order.
func checkDryRun(ctx context.Context, r *reader, c *class) []Result {
	var results []Result

	if c.image != nil {
		results = tryImage(ctx, r, c)
	}

	for _, secret := range c.secrets {
		s := r.about("Secret " + c.namespace + "/" + secret.Name)

		if _, err := r.trySecret(ctx, secret); err != nil {
			results = append(results, refused(c, s, err, providercluster.Explain(err))...)
		} else {
			results = append(results, s.ok("would be created")...)
		}
	}

	return append(results, tryVirtualMachine(ctx, r, c)...)
}

func tryImage(ctx context.Context, r *reader, c *class) []Result {
	s := r.about("DataVolume " + c.namespace + "/" + c.image.Name + ", the golden image")

	response, err := r.tryImage(ctx, c.image)

	switch {
	case apierrors.IsAlreadyExists(err):
		return s.ok("already exists")
	case err != nil:
		return refused(c, s, err, providercluster.ExplainImageRefusal(err))
	}

	return append(s.ok("would be created"), checkDropped(s, c.image, response, func(path string) string {
		return strings.Replace(path, "spec", rootVolumePath, 1)
	})...)
}

func tryVirtualMachine(ctx context.Context, r *reader, c *class) []Result {
	s := r.about("VirtualMachine " + c.namespace + "/" + c.vm.Name)

	response, err := r.tryVirtualMachine(ctx, c.vm)
	if err != nil {
		return refused(c, s, err, providercluster.ExplainRefusal(err, c.Machine, c.vm))
	}

	webhooks := subject{check: webhook, identity: s.identity, name: "webhooks for VirtualMachines"}

	return slices.Concat(s.ok("would be created"), checkDropped(s, c.vm, response, c.field), webhooks.ok("respond"))
}

// checkDropped compares the response with the object that was sent, and returns a result for each
// field that was dropped or changed. origin returns the field of the class that a field comes from.
func checkDropped(s subject, sent, response any, origin func(string) string) []Result {
	s.check = dropped

	found, err := differences(sent, response)
	if err != nil {
		return s.fail("cannot be compared: "+err.Error(), "report this as a bug of mcm-kubevirt")
	}

	if len(found) == 0 {
		return s.ok("the response contains all fields unchanged")
	}

	var results []Result

	for _, d := range found {
		from := quoted(origin(d.path))

		if d.dropped {
			results = append(results, s.fail("the provider cluster drops "+d.path,
				"upgrade KubeVirt and CDI to a version that knows the field, or remove "+from)...)
		} else {
			results = append(results, s.warn("a mutating webhook or policy changes "+d.path,
				"change "+from+" to the value that the provider cluster sets, or find the webhook with kubectl get mutatingwebhookconfigurations")...)
		}
	}

	return results
}

// webhookName matches the API server's message about a webhook that does not respond
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
var webhookName = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// refused returns the reason why an object would not be created.
func refused(c *class, s subject, err, explained error) []Result {
	if match := webhookName.FindStringSubmatch(err.Error()); match != nil {
		s.check = webhook
		s.name = "webhook " + match[1]

		return s.fail("does not respond: "+explained.Error(), podsOf(match[1]))
	}

	return s.fail(explained.Error(), remedyFor(explained, c.namespace))
}

// podsOf returns the command that shows the pods that serve a webhook.
func podsOf(name string) string {
	switch {
	case strings.Contains(name, "cdi.kubevirt.io"):
		return "kubectl --namespace cdi get pods --selector=cdi.kubevirt.io=cdi-apiserver && kubectl --namespace cdi get endpointslices"
	case strings.HasSuffix(name, "kubevirt.io"):
		return "kubectl --namespace kubevirt get pods --selector=kubevirt.io=virt-api && kubectl --namespace kubevirt get endpointslices"
	default:
		return "find the component of the webhook with kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
	}
}

func remedyFor(explained error, namespace string) string {
	switch {
	case errors.Is(explained, spi.ErrInvalid):
		return "change the fields of the MachineClass that the message names"
	case errors.Is(explained, spi.ErrForbidden):
		return "see the check permission; if it is ok, find the policy of the provider cluster that denies the request: kubectl get validatingadmissionpolicies"
	case errors.Is(explained, spi.ErrExhausted):
		return kubectlIn(namespace, "describe resourcequotas")
	case errors.Is(explained, spi.ErrPrecondition):
		return "see the checks kubevirt and cdi; if they are ok: " + kubectl("create namespace", namespace)
	default:
		return "retry, and check the health of the API server with kubectl get --raw='/readyz?verbose'"
	}
}
