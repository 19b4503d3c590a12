package checks

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// checkDryRun sends a dry-run create for each object that the driver would create, with the
// driver's identity and in the driver's order.
func (c *classChecker) checkDryRun(ctx context.Context) []Result {
	if c.driver == nil { // The dry run must use the driver's permissions.
		return nil
	}

	results := c.tryImage(ctx)
	for _, secret := range c.secrets {
		results = append(results, c.trySecret(ctx, secret)...)
	}

	return append(results, c.tryVirtualMachine(ctx)...)
}

// asDriver returns a subject that the driver sends a dry run for.
func (c *classChecker) asDriver(kind, name string) subject {
	return subject{check: checkDryRun, identity: c.driver.Name, class: c.Name, name: fmt.Sprintf("%s %s/%s", kind, c.namespace, name)}
}

func (c *classChecker) tryImage(ctx context.Context) []Result {
	if c.image == nil {
		return nil
	}

	s := c.asDriver("DataVolume", c.image.Name)
	s.name += ", the golden image"

	response, err := dryRun(ctx, c.driver.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Create, c.image)

	switch {
	case apierrors.IsAlreadyExists(err):
		return s.ok("already exists")
	case err != nil:
		return c.refused(s, err, providercluster.ExplainImageRefusal(err))
	}

	return append(s.ok("would be created"), checkDropped(s, c.image, response, func(path string) string {
		return strings.Replace(path, "spec", rootVolumePath, 1)
	})...)
}

// trySecret keeps client-go from logging the request.
func (c *classChecker) trySecret(ctx context.Context, secret *corev1.Secret) []Result {
	s := c.asDriver("Secret", secret.Name)

	_, err := dryRun(klog.NewContext(ctx, logr.Discard()), c.driver.clients.Kubernetes.CoreV1().Secrets(c.namespace).Create, secret)
	if err != nil {
		return c.refused(s, err, providercluster.Explain(err))
	}

	return s.ok("would be created")
}

func (c *classChecker) tryVirtualMachine(ctx context.Context) []Result {
	s := c.asDriver("VirtualMachine", c.vm.Name)

	response, err := dryRun(ctx, c.driver.clients.KubeVirt.KubevirtV1().VirtualMachines(c.namespace).Create, c.vm)
	if err != nil {
		return c.refused(s, err, providercluster.ExplainRefusal(err, c.Machine, c.vm))
	}

	webhooks := s
	webhooks.check = checkWebhook
	webhooks.name = "webhooks for VirtualMachines"

	return slices.Concat(s.ok("would be created"), checkDropped(s, c.vm, response, c.field), webhooks.ok("respond"))
}

// checkDropped compares the response with the object that was sent, and returns a result for each
// field that was dropped or changed. origin returns the field of the class that a field comes from.
func checkDropped(s subject, sent, response any, origin func(string) string) []Result {
	s.check = checkDroppedFields

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
func (c *classChecker) refused(s subject, err, explained error) []Result {
	if match := webhookName.FindStringSubmatch(err.Error()); match != nil {
		s.check = checkWebhook
		s.name = "webhook " + match[1]

		return s.fail("does not respond: "+explained.Error(), podsOf(match[1]))
	}

	return s.fail(explained.Error(), c.remedyFor(explained))
}

// podsOf returns the command that shows the pods that serve a webhook.
func podsOf(webhook string) string {
	switch {
	case strings.Contains(webhook, "cdi.kubevirt.io"):
		return "kubectl --namespace cdi get pods --selector=cdi.kubevirt.io=cdi-apiserver && kubectl --namespace cdi get endpointslices"
	case strings.HasSuffix(webhook, "kubevirt.io"):
		return "kubectl --namespace kubevirt get pods --selector=kubevirt.io=virt-api && kubectl --namespace kubevirt get endpointslices"
	default:
		return "find the component of the webhook with kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
	}
}

func (c *classChecker) remedyFor(explained error) string {
	switch {
	case errors.Is(explained, spi.ErrInvalid):
		return "change the fields of the MachineClass that the message names"
	case errors.Is(explained, spi.ErrForbidden):
		return "see the check " + checkPermission + "; if it is ok, find the policy of the provider cluster that denies the request: kubectl get validatingadmissionpolicies"
	case errors.Is(explained, spi.ErrExhausted):
		return kubectlIn(c.namespace, "describe resourcequotas")
	case errors.Is(explained, spi.ErrPrecondition):
		return "see the checks " + checkKubeVirt + " and " + checkCDI + "; if they are ok: " + kubectl("create namespace", c.namespace)
	default:
		return "retry, and check the health of the API server with kubectl get --raw='/readyz?verbose'"
	}
}
