package preflight

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
)

// dryRun makes the server validate an object as strictly as the
// driver's requests do, without persisting it.
func dryRun() metav1.CreateOptions {
	return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
}

// checkDryRun sends a dry-run create for each object that the driver would create, with the
// driver's identity and in the driver's order.
func (c *classChecker) checkDryRun(ctx context.Context) []Result {
	if c.driver == nil { // The dry run must use the driver's permissions.
		return nil
	}

	results := c.tryImage(ctx)
	for _, secret := range c.secrets {
		results = append(results, c.trySecret(ctx, secret))
	}

	return append(results, c.tryVirtualMachine(ctx)...)
}

func (c *classChecker) tryImage(ctx context.Context) []Result {
	if c.image == nil {
		return nil
	}

	v, subject := c.asDriver(), fmt.Sprintf("DataVolume %s/%s, the golden image", c.namespace, c.image.Name)

	response, err := within(ctx, dryRunTimeout, func(ctx context.Context) (*cdiv1beta1.DataVolume, error) {
		return c.driver.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Create(ctx, c.image, dryRun())
	})

	switch {
	case apierrors.IsAlreadyExists(err):
		return []Result{v.ok(checkDryRun, subject, "already exists")}
	case err != nil:
		return []Result{c.refused(v, subject, err, providercluster.ExplainImageRefusal(err))}
	}

	return append([]Result{v.ok(checkDryRun, subject, "would be created")},
		c.dropped(v, subject, c.image, response, func(path string) string {
			return strings.Replace(path, "spec", rootVolumePath, 1)
		})...)
}

// trySecret keeps client-go from logging the request.
func (c *classChecker) trySecret(ctx context.Context, secret *corev1.Secret) Result {
	v, subject := c.asDriver(), fmt.Sprintf("Secret %s/%s", c.namespace, secret.Name)

	_, err := within(klog.NewContext(ctx, logr.Discard()), dryRunTimeout, func(ctx context.Context) (*corev1.Secret, error) {
		return c.driver.clients.Kubernetes.CoreV1().Secrets(c.namespace).Create(ctx, secret, dryRun())
	})
	if err != nil {
		return c.refused(v, subject, err, providercluster.Explain(err))
	}

	return v.ok(checkDryRun, subject, "would be created")
}

func (c *classChecker) tryVirtualMachine(ctx context.Context) []Result {
	v, subject := c.asDriver(), fmt.Sprintf("VirtualMachine %s/%s", c.namespace, c.vm.Name)

	response, err := within(ctx, dryRunTimeout, func(ctx context.Context) (*kubevirtv1.VirtualMachine, error) {
		return c.driver.clients.KubeVirt.KubevirtV1().VirtualMachines(c.namespace).Create(ctx, c.vm, dryRun())
	})
	if err != nil {
		return []Result{c.refused(v, subject, err, providercluster.ExplainRefusal(err, c.Machine, c.vm))}
	}

	results := append([]Result{v.ok(checkDryRun, subject, "would be created")}, c.dropped(v, subject, c.vm, response, c.field)...)

	return append(results, v.ok(checkWebhook, "webhooks for VirtualMachines", "respond"))
}

// dropped compares the response with the object that was sent, and returns a result for each field
// of the class that was dropped or changed.
func (c *classChecker) dropped(v view, subject string, sent, response any, origin func(string) string) []Result {
	found, err := differences(sent, response)
	if err != nil {
		return []Result{v.fail(checkDroppedFields, subject, "cannot be compared: "+err.Error(), "report this as a bug of mcm-kubevirt")}
	}

	results := make([]Result, 0, len(found))

	for _, d := range found {
		from := quoted(origin(d.path))

		if d.dropped {
			results = append(results, v.fail(checkDroppedFields, subject, "the provider cluster drops "+d.path,
				"upgrade KubeVirt and CDI to a version that knows the field, or remove "+from))
		} else {
			results = append(results, v.warn(checkDroppedFields, subject, "a mutating webhook or policy changes "+d.path,
				"change "+from+" to the value that the provider cluster sets, or find the webhook with kubectl get mutatingwebhookconfigurations"))
		}
	}

	if len(found) == 0 {
		return []Result{v.ok(checkDroppedFields, subject, "the response contains all fields unchanged")}
	}

	return results
}

// webhookName matches the API server's message about a webhook that does not respond
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
var webhookName = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// refused returns the reason why an object would not be created.
func (c *classChecker) refused(v view, subject string, err, explained error) Result {
	message := explained.Error()

	if match := webhookName.FindStringSubmatch(err.Error()); match != nil {
		return v.fail(checkWebhook, "webhook "+match[1], "does not respond: "+message, podsOf(match[1]))
	}

	return v.fail(checkDryRun, subject, message, c.remedyFor(explained))
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
