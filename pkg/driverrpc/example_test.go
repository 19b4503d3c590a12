// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// listMachines is the client in docs/grpc.md: it needs only the generated code, and nothing of
// machine-controller-manager.
func listMachines(ctx context.Context, endpoint, classFile, kubeconfigFile string) error {
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // It was read from.

	class, err := os.ReadFile(classFile) // kubectl get machineclass NAME -o json
	if err != nil {
		return err
	}

	kubeconfig, err := os.ReadFile(kubeconfigFile)
	if err != nil {
		return err
	}

	resp, err := driverv1.NewMachineDriverClient(connection).ListMachines(ctx, &driverv1.ListMachinesRequest{
		MachineClass: &driverv1.MachineClass{Json: class},
		Secret:       &driverv1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig}},
	})
	for _, detail := range status.Convert(err).Details() {
		if machineError, ok := detail.(*driverv1.MachineError); ok { // The error comes from the driver.
			return fmt.Errorf("machine code %d: %s", machineError.GetMachineCode(), status.Convert(err).Message())
		}
	}

	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}

	return json.NewEncoder(os.Stdout).Encode(resp.GetMachineList())
}

func Example() {
	if err := listMachines(context.Background(), "unix:///run/mcm-kubevirt/driver.sock", "class.json", "kubeconfig"); err != nil {
		log.Fatal(err)
	}
}
