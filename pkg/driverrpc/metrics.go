// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"path"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"
)

// metrics holds the metrics of a server.
type metrics struct {
	duration *prometheus.HistogramVec
	running  prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcm_kubevirt_driver_call_duration_seconds",
			Help: "Duration of calls over gRPC, by method and machine code, including time in the concurrency limiter; " +
				"calls without a response from the driver have gRPC's code with the prefix grpc:.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600},
		}, []string{"method", "code"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcm_kubevirt_driver_calls_running",
			Help: "Calls over gRPC that are running, or wait in the concurrency limiter.",
		}),
	}
}

// observe is a grpc.UnaryServerInterceptor.
func (m *metrics) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, ok := timeouts[info.FullMethod]; !ok {
		return handle(ctx, req)
	}

	m.running.Inc()
	defer m.running.Dec()

	start := time.Now()
	resp, err := handle(ctx, req)
	m.duration.WithLabelValues(path.Base(info.FullMethod), codeLabel(err)).Observe(time.Since(start).Seconds())

	return resp, err
}

// codeLabel returns the machine code of a result, or gRPC's code if there is no response from the
// driver.
func codeLabel(err error) string {
	if err == nil {
		return codes.OK.String()
	}

	if machineError := machineErrorOf(err); machineError != nil {
		return codes.Code(machineError.GetMachineCode()).String()
	}

	return "grpc:" + grpcstatus.Code(err).String()
}
