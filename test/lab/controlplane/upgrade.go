// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// UpgradeKubeVirt replaces KubeVirt by the version of other binaries, in the order of KubeVirt's
// operator: definitions and permissions, programs, webhooks. All objects stay in etcd. While the
// programs restart, requests that need their webhooks fail.
func (c *Cluster) UpgradeKubeVirt(ctx context.Context, to *binaries.Binaries) error {
	p := c.provider
	if p == nil {
		return errors.New("upgrade KubeVirt: another process has started the cluster")
	}
	next := *p.options.Binaries
	next.VirtAPI = to.VirtAPI
	next.VirtController = to.VirtController
	next.KubeVirtManifests = to.KubeVirtManifests
	next.KubeVirtVersion = to.KubeVirtVersion
	p.options.Binaries = &next
	p.registrations = nil
	for _, step := range []func(context.Context) error{p.stopKubeVirt, p.applyKubeVirt, p.awaitDiscovery, p.startKubeVirt, p.register} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("upgrade KubeVirt of cluster %s to %s: %w", c.Name, next.KubeVirtVersion, err)
		}
	}
	return nil
}

// UpgradeLaunchers restarts virt-controller with another image of virt-launcher, as KubeVirt's operator does in an upgrade. Virtual machines
// that run are then outdated.
func (c *Cluster) UpgradeLaunchers(ctx context.Context, image string) error {
	p := c.provider
	if p == nil {
		return errors.New("upgrade virt-launcher: another process has started the cluster")
	}
	p.launcher = image
	if err := p.stopVirtController(ctx); err != nil {
		return fmt.Errorf("upgrade virt-launcher: %w", err)
	}
	return p.runVirtController(ctx)
}

// stopKubeVirt stops KubeVirt's programs.
func (p *provider) stopKubeVirt(ctx context.Context) error {
	return errors.Join(p.virtAPI.Stop(ctx), p.stopVirtController(ctx))
}

// stopVirtController stops virt-controller, and releases the lease that it held.
func (p *provider) stopVirtController(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if err := p.virtController.Stop(ctx); err != nil {
		return err
	}
	err = client.CoordinationV1().Leases("kubevirt").Delete(ctx, "virt-controller", metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (p *provider) applyKubeVirt(ctx context.Context) error {
	objects, err := p.manifest(p.options.Binaries.KubeVirtManifests, p.kubeVirtPort)
	if err != nil {
		return err
	}
	if err := p.apply(ctx, objects); err != nil {
		return err
	}
	return p.markDeployed(ctx)
}

func (p *provider) startKubeVirt(ctx context.Context) error {
	return Together(ctx, p.runVirtAPI, p.runVirtController)
}
