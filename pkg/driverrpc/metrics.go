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

// metrics holds the metrics of a server. They are one collector, so
// that they are registered together.
type metrics struct {
	calls   *prometheus.HistogramVec
	running prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcm_kubevirt_driver_call_duration_seconds",
			Help: "Duration of the driver's calls, by method and by the machine code of their answer; calls that the driver did not answer " +
				"have gRPC's code with the prefix grpc:.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600},
		}, []string{"method", "code"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcm_kubevirt_driver_calls_running",
			Help: "Calls that are under way or wait for their turn.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	m.calls.Describe(descriptions)
	m.running.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	m.calls.Collect(values)
	m.running.Collect(values)
}

func (m *metrics) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, ok := deadlines[info.FullMethod]; !ok {
		return handle(ctx, req)
	}

	m.running.Inc()
	defer m.running.Dec()

	began := time.Now()
	resp, err := handle(ctx, req)
	m.calls.WithLabelValues(path.Base(info.FullMethod), codeLabel(err)).Observe(time.Since(began).Seconds())

	return resp, err
}

// codeLabel returns the label for the code of a response.
func codeLabel(err error) string {
	if err == nil {
		return codes.OK.String()
	}

	if failure := machineErrorOf(err); failure != nil {
		return codes.Code(failure.GetMachineCode()).String()
	}

	return "grpc:" + grpcstatus.Code(err).String()
}
