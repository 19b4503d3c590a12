// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlcluster

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// contexts returns the contexts in the kubeconfig of the control cluster.
func (f *Flags) contexts(context.Context) []string {
	config, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}

	return slices.Sorted(maps.Keys(config.Contexts))
}

// MachineNames returns the names of the Machines, for completions.
func (f *Flags) MachineNames(ctx context.Context) []string {
	return f.names(func(c *Cluster) (runtime.Object, error) {
		return c.Machines.Machines(c.Namespace).List(ctx, metav1.ListOptions{})
	})
}

func (f *Flags) namespaces(ctx context.Context) []string {
	return f.names(func(c *Cluster) (runtime.Object, error) {
		return c.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	})
}

// names returns the names of listed objects; none if the control cluster cannot be read.
func (f *Flags) names(list func(*Cluster) (runtime.Object, error)) []string {
	control, err := f.Control()
	if err != nil {
		return nil
	}

	objects, err := list(control)
	if err != nil {
		return nil
	}

	var names []string

	_ = meta.EachListItem(objects, func(object runtime.Object) error { // It fails for no list of the API.
		if named, ok := object.(metav1.Object); ok {
			names = append(names, named.GetName())
		}

		return nil
	})

	return names
}
