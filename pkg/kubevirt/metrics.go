package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/metrics"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

// operations are the driver's methods as the drivers of other providers name them in machine-controller-manager's metrics.
var operations = map[string]string{
	"CreateMachine":     "create_machine",
	"InitializeMachine": "initialize_machine",
	"DeleteMachine":     "delete_machine",
	"GetMachineStatus":  "get_machine_status",
	"ListMachines":      "list_machine",
	"GetVolumeIDs":      "get_volume_ids",
}

// RegisterMetrics adds what the plugin counts: its calls and the requests to provider clusters in the metrics that
// machine-controller-manager has for all drivers and fills for none (pkg/util/provider/metrics), and its own of machines. In the
// sidecar, that library has registered its own already.
func (p *MachinePlugin) RegisterMetrics(r prometheus.Registerer) error {
	for _, shared := range []prometheus.Collector{
		metrics.APIRequestCount, metrics.APIFailedRequestCount, metrics.APIRequestDuration,
		metrics.DriverAPIRequestDuration, metrics.DriverFailedAPIRequests,
	} {
		if err := r.Register(shared); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
			return fmt.Errorf("register the metrics of all drivers: %w", err)
		}
	}

	// They are there from the start, so that shares can be computed.
	for _, operation := range operations {
		metrics.DriverAPIRequestDuration.WithLabelValues(machineclass.Provider, operation)
	}

	if err := errors.Join(r.Register(p.phases), r.Register(p.missing)); err != nil {
		return fmt.Errorf("register the metrics of machines: %w", err)
	}

	return nil
}

// CountRequest counts a request to the API server of a provider cluster, under a service such as virtualmachines_get. Each counts once,
// failed or not; durations are those of requests that did not fail, as everywhere in these metrics. Which requests have failed is
// providerapi.Call's to say.
func CountRequest(service string, took time.Duration, failed bool) {
	metrics.APIRequestCount.WithLabelValues(machineclass.Provider, service).Inc()

	// It is there from the first request on, so that the first failure is an increase.
	failures := metrics.APIFailedRequestCount.WithLabelValues(machineclass.Provider, service)
	if failed {
		failures.Inc()

		return
	}

	metrics.APIRequestDuration.WithLabelValues(machineclass.Provider, service).Observe(took.Seconds())
}

// countCall counts a call of the driver: the durations of those that succeeded, and the codes, as numbers, of those that did not. As with
// other drivers these are all codes, also those that machine-controller-manager goes on from: NotFound (5) before each creation,
// Uninitialized (17) while a machine waits, and Aborted (10).
func countCall(method string, took time.Duration, err error) {
	operation := operations[method]

	if err == nil {
		metrics.DriverAPIRequestDuration.WithLabelValues(machineclass.Provider, operation).Observe(took.Seconds())

		return
	}

	code := codes.Unknown
	if known, ok := status.FromError(err); ok {
		code = known.Code()
	}

	metrics.DriverFailedAPIRequests.WithLabelValues(machineclass.Provider, operation, strconv.Itoa(int(code))).Inc()
}

// deadlineSlack is how much earlier than here a call's deadline may be over at its client, which then cancels it.
const deadlineSlack = time.Second

// cutOff says whether a call ended because nobody waits for it any more, as when a process ends: that is nobody's failure. That a client
// over gRPC has waited in vain until its deadline is one.
func cutOff(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return false
	}

	deadline, limited := ctx.Deadline()

	return !limited || time.Until(deadline) > deadlineSlack
}
