// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listing is a driver that lists one machine per class, except for the class "broken".
type listing struct{ driver.Driver }

func (listing) ListMachines(_ context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	if req.MachineClass.Name == "broken" {
		return nil, errors.New("the kubeconfig is not a kubeconfig")
	}

	return &driver.ListMachinesResponse{MachineList: map[string]string{"kubevirt://m": "m"}}, nil
}

func TestOrphanPass_ListMachines(t *testing.T) {
	t.Parallel()

	for class, want := range map[string]map[string]string{"broken": {}, "usable": {"kubevirt://m": "m"}} {
		resp, err := orphanPass{listing{}}.ListMachines(t.Context(), &driver.ListMachinesRequest{
			MachineClass: &machinev1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: class}},
		})
		require.NoError(t, err, "an error ends the search for orphans in all classes")
		require.Equal(t, want, resp.MachineList)
	}
}
