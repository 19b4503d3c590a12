// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// inventory is a query that must find nothing at the end.
type inventory struct {
	cluster cluster
	args    []string
}

const leftoverTimeout = time.Minute

func (d *demo) inventories() []inventory {
	return []inventory{
		{d.provider(), []string{"virtualmachines,virtualmachineinstances,datavolumes,persistentvolumeclaims,pods"}},
		{d.provider(), []string{"secrets", "--selector=mcm.gardener.cloud/cluster"}},
		{d.control(), []string{"machines,machinesets,machinedeployments,machineclasses"}},
		{d.control(), []string{"nodes"}},
	}
}

// checkLeftovers waits until every trace of the machines is gone; claims and pods are removed
// shortly after their owners.
func (d *demo) checkLeftovers(ctx context.Context) error {
	for _, i := range d.inventories() {
		d.out.Line("%s $ kubectl get %s", i.cluster.name, strings.Join(i.args, " "))
		if err := d.awaitNothing(ctx, i); err != nil {
			return err
		}
		d.out.Line("%s", indent("No resources found."))
	}
	return d.checkProcesses(ctx)
}

func (d *demo) awaitNothing(ctx context.Context, i inventory) error {
	waiting, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	var left []string
	var failed error
	err := poll(waiting, func() (bool, error) {
		found, err := d.list(waiting, i.cluster, i.args[0], i.args[1:]...)
		if err != nil {
			if waiting.Err() == nil {
				failed = err
			}
			return false, nil
		}
		left = names(found)
		failed = nil
		return len(left) == 0, nil
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("expected within %s: no %s left in the %s cluster. Seen: %s. Logs: %s", leftoverTimeout, i.args[0], i.cluster.name, strings.Join(left, ", "), d.lab.LogDir)
	return errors.Join(err, failed)
}

func names(objects []object) []string {
	all := make([]string, 0, len(objects))
	for _, o := range objects {
		all = append(all, o.Kind+" "+o.Metadata.Name)
	}
	slices.Sort(all)
	return all
}
