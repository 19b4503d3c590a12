package worker

import (
	"context"
	"fmt"
	"strings"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
)

// removedPool begins the generic actuator's error about a machine of a worker pool that is no longer
// desired (extensions/pkg/controller/worker/genericactuator/actuator_reconcile.go).
const removedPool = "error while waiting for all undesired machine deployments to be deleted"

// Reconcile implements worker.Actuator.
func (a *actuator) Reconcile(ctx context.Context, log logr.Logger, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) error {
	return withRetry(a.Actuator.Reconcile(ctx, log, w, c))
}

// withRetry adds to an error about a removed pool how to try again at once: the failed machine is soon
// deleted, but the next attempt may be minutes away. The error has no code, so that Gardener retries.
func withRetry(err error) error {
	if err == nil || !strings.Contains(err.Error(), removedPool) {
		return err
	}

	return fmt.Errorf("%w; its worker pool was removed, and it is being deleted: Gardener tries again, or at once after "+
		"kubectl annotate shoot NAME gardener.cloud/operation=reconcile", err)
}
