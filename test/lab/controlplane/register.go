// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// register enables the webhooks and aggregated APIs, and waits until the API server uses them.
func (p *provider) register(ctx context.Context) error {
	if err := p.apply(ctx, p.registrations); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	waits := []func(context.Context) error{
		func(ctx context.Context) error { return await(ctx, "KubeVirt's webhooks", refusesBadMachine(client)) },
	}
	for i := range p.registrations {
		if o := &p.registrations[i]; o.GetKind() == "APIService" {
			waits = append(waits, func(ctx context.Context) error { return await(ctx, o.GetName(), isAvailable(client, o)) })
		}
	}
	return Together(ctx, waits...)
}

func await(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// refusesBadMachine checks that the API server refuses a VirtualMachine that only KubeVirt's
// webhook can recognize as invalid.
func refusesBadMachine(client dynamic.Interface) func(context.Context) error {
	o := &unstructured.Unstructured{Object: with(within("default", named("kubevirt.io/v1", "VirtualMachine", "probe")),
		"spec", object{"runStrategy": "Sometimes", "template": object{"spec": object{"domain": object{"devices": object{}}}}})}
	return func(ctx context.Context) error {
		_, err := resource(client, o).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a bad VirtualMachine is accepted")
		}
		if !strings.Contains(err.Error(), "denied the request") { // the webhook's answer has no error type
			return fmt.Errorf("try a bad VirtualMachine: %w", err)
		}
		return nil
	}
}

func isAvailable(client dynamic.Interface, o *unstructured.Unstructured) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := resource(client, o).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		conditions, _, err := unstructured.NestedSlice(got.Object, "status", "conditions")
		if err != nil {
			return fmt.Errorf("read conditions: %w", err)
		}
		for _, c := range conditions {
			if condition, ok := c.(object); ok && condition["type"] == "Available" && condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("not available: %v", conditions)
	}
}
