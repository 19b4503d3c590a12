package driverrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

// outcome is the result of a call.
type outcome struct {
	answer any
	err    error
}

// methods returns a function for each method of a driver that calls it.
func methods(d driver.Driver) map[string]func(context.Context) outcome {
	return map[string]func(context.Context) outcome{
		"CreateMachine": func(ctx context.Context) outcome {
			answer, err := d.CreateMachine(ctx, &driver.CreateMachineRequest{})

			return outcome{answer, err}
		},
		"InitializeMachine": func(ctx context.Context) outcome {
			answer, err := d.InitializeMachine(ctx, &driver.InitializeMachineRequest{})

			return outcome{answer, err}
		},
		"DeleteMachine": func(ctx context.Context) outcome {
			answer, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{})

			return outcome{answer, err}
		},
		"GetMachineStatus": func(ctx context.Context) outcome {
			answer, err := d.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{})

			return outcome{answer, err}
		},
		"ListMachines": func(ctx context.Context) outcome {
			answer, err := d.ListMachines(ctx, &driver.ListMachinesRequest{})

			return outcome{answer, err}
		},
		"GetVolumeIDs": func(ctx context.Context) outcome {
			answer, err := d.GetVolumeIDs(ctx, &driver.GetVolumeIDsRequest{})

			return outcome{answer, err}
		},
	}
}

// answering returns a driver whose methods all return an error, and a response if respond is set.
func answering(err error, respond bool) *scripted {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "ü"}}

	return &scripted{
		create: func(context.Context) (*driver.CreateMachineResponse, error) {
			return when(respond, &driver.CreateMachineResponse{ProviderID: "p", NodeName: "n", LastKnownState: "s", Addresses: addresses}), err
		},
		start: func(context.Context) (*driver.InitializeMachineResponse, error) {
			return when(respond, &driver.InitializeMachineResponse{ProviderID: "p", NodeName: "n", Addresses: addresses}), err
		},
		remove: func(context.Context) (*driver.DeleteMachineResponse, error) {
			return when(respond, &driver.DeleteMachineResponse{LastKnownState: "s"}), err
		},
		look: func(context.Context) (*driver.GetMachineStatusResponse, error) {
			return when(respond, &driver.GetMachineStatusResponse{ProviderID: "p", NodeName: "n", Addresses: addresses}), err
		},
		list: func(context.Context) (*driver.ListMachinesResponse, error) {
			return when(respond, &driver.ListMachinesResponse{MachineList: map[string]string{"p": "n", "q": "o"}}), err
		},
		volume: func(context.Context) (*driver.GetVolumeIDsResponse, error) {
			return when(respond, &driver.GetVolumeIDsResponse{VolumeIDs: []string{"a", "", "b"}}), err
		},
	}
}

func when[T any](ok bool, value *T) *T {
	if !ok {
		return nil
	}

	return value
}

// TestAnswersArrive compares a driver's results with those that arrive: for each method and each
// code of machine-controller-manager, with and without a response. Results that
// machine-controller-manager cannot handle do not arrive (TestInvalidAnswers).
func TestAnswersArrive(t *testing.T) {
	t.Parallel()

	texts := []string{
		"ProviderUnavailable: create VirtualMachine ns/x: Post \"https://10.0.0.1:6443\": EOF", "ü, 漢字 and 🙂; 100% %20\\n", "",
		strings.Repeat("x", 1000),
	}
	failures := []error{nil}

	for code := codes.Canceled; code <= codes.Uninitialized; code++ {
		failures = append(failures, status.Error(code, texts[int(code)%len(texts)]))
	}

	for i, failure := range failures {
		for _, respond := range []bool{true, false} {
			if failure == nil && !respond {
				continue
			}

			here := answering(failure, respond)
			there := connect(t, here)

			for method, ask := range methods(here) {
				if method == "GetMachineStatus" && !respond && i == int(codes.Uninitialized) {
					continue // machine-controller-manager reads its response.
				}

				want, got := ask(t.Context()), methods(there)[method](t.Context())
				require.Equal(t, want, got, "%s, %d, %v", method, i, failure)
			}
		}
	}
}

// TestErrorsThatAreNoMachineErrors has drivers return errors that
// machine-controller-manager cannot parse.
func TestErrorsThatAreNoMachineErrors(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		err     error
		code    codes.Code
		message string
	}{
		"plain":    {errors.New("vm [x]"), codes.Unknown, "vm (x)"},
		"wrapped":  {fmt.Errorf("[more]: %w", status.Error(codes.Aborted, "busy")), codes.Aborted, "busy"},
		"brackets": {status.Error(codes.Aborted, "a ] b [ c"), codes.Aborted, "a ) b ( c"},
		"no UTF-8": {status.Error(codes.Aborted, "a\xffb"), codes.Aborted, "a�b"},
		"lines":    {status.Error(codes.Aborted, "a\nb"), codes.Aborted, "a b"},
		"gRPC's":   {grpcstatus.Error(grpccodes.ResourceExhausted, "of the driver's own client"), codes.Unknown, "rpc error: code = ResourceExhausted desc = of the driver's own client"},
	} {
		got := methods(connect(t, answering(tc.err, false)))["CreateMachine"](t.Context())
		require.Equal(t, status.Error(tc.code, tc.message), got.err, name)
	}
}
