// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// operations are the names of the driver's methods in machine-controller-manager's metrics, as the
// drivers of other providers set them.
var operations = map[string]string{
	"CreateMachine":     "create_machine",
	"InitializeMachine": "initialize_machine",
	"DeleteMachine":     "delete_machine",
	"GetMachineStatus":  "get_machine_status",
	"ListMachines":      "list_machine",
	"GetVolumeIDs":      "get_volume_ids",
}

// RegisterMetrics registers the plugin's metrics of machines, and machine-controller-manager's
// metrics of calls and provider requests, which drivers have to fill (pkg/util/provider/metrics).
// In the sidecar, machine-controller-manager has registered the latter already.
func (p *MachinePlugin) RegisterMetrics(r prometheus.Registerer) error {
	for _, shared := range []prometheus.Collector{
		metrics.APIRequestCount, metrics.APIFailedRequestCount, metrics.APIRequestDuration,
		metrics.DriverAPIRequestDuration, metrics.DriverFailedAPIRequests,
	} {
		if err := r.Register(shared); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
			return fmt.Errorf("register the metrics of all drivers: %w", err)
		}
	}

	// All series exist from the start, so that ratios can be computed.
	for _, operation := range operations {
		metrics.DriverAPIRequestDuration.WithLabelValues(machineclass.Provider, operation)
	}

	if err := errors.Join(r.Register(p.phases), r.Register(missing{p.records})); err != nil {
		return fmt.Errorf("register the metrics of machines: %w", err)
	}

	return nil
}

// CountRequest counts a request to the API server of a provider cluster, under a service such as
// virtualmachines_get. The duration of a failed request is not observed, as in these metrics of
// other drivers. providerapi.Call defines which requests have failed.
func CountRequest(service string, took time.Duration, failed bool) {
	metrics.APIRequestCount.WithLabelValues(machineclass.Provider, service).Inc()

	// The series exists from the first request on, so that the first failure is an increase.
	failures := metrics.APIFailedRequestCount.WithLabelValues(machineclass.Provider, service)
	if failed {
		failures.Inc()

		return
	}

	metrics.APIRequestDuration.WithLabelValues(machineclass.Provider, service).Observe(took.Seconds())
}

// countCall records a driver call: the duration of a successful call, or the number of the code of
// any other call. As with other drivers, the codes include expected responses: NotFound (5) before
// each creation, Uninitialized (17) while a machine is not scheduled, and Aborted (10).
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

// deadlineSlack is how much earlier the deadline of a call may expire at its client, which then
// cancels the call.
const deadlineSlack = time.Second

// isCancelled reports whether a call failed because it was cancelled, as when the process exits. A
// call over gRPC that was cancelled at its deadline counts as failed.
func isCancelled(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return false
	}

	deadline, limited := ctx.Deadline()

	return !limited || time.Until(deadline) > deadlineSlack
}
