// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// provider is a cluster with KubeVirt and CDI during its start.
type provider struct {
	*Cluster
	keys          cdiKeys
	kubeVirtPort  int
	cdiPort       int
	registrations []unstructured.Unstructured
	launcher      string // the image of virt-launcher, unless it is that of KubeVirt's version

	virtAPI, virtController *process.Process
}

// StartProvider starts the cluster that runs virtual machines. It returns when all
// components are healthy and their webhooks and aggregated APIs are in effect. It does not
// provide nodes, volumes or pods.
func StartProvider(ctx context.Context, o Options) (*Cluster, error) {
	c, err := newCluster("provider", o, scheduler, virtAPI, virtController, cdiAPIServer, cdiController, kubeProxy, coreDNS, multus)
	if err != nil {
		return nil, err
	}
	p := &provider{Cluster: c}
	c.provider = p
	if err := c.pki.issueInto(handlerClient, c.pki.ca, handlerClientName); err != nil {
		return nil, err
	}
	authentication, err := p.writeAuthentication()
	if err != nil {
		return nil, err
	}
	err = Together(ctx, p.prepareKeys, func(ctx context.Context) error {
		return c.startAPI(ctx, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement", authentication)
	})
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{p.applyManifests, p.awaitDiscovery, p.startComponents, p.register} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("start cluster %s: %w", c.Name, err)
		}
	}
	return c, nil
}

// writeAuthentication writes the file with the issuers of tokens that the API server trusts: none. Tests write
// others, which take effect without a restart: authentication.yaml is beside the kubeconfigs. It returns
// the flag for the file.
func (p *provider) writeAuthentication() (string, error) {
	const nobody = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n"
	path := filepath.Join(p.dir, "authentication.yaml")
	if err := os.WriteFile(path, []byte(nobody), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration of the authentication: %w", err)
	}
	return "--authentication-config=" + path, nil
}

func (p *provider) prepareKeys(context.Context) (err error) {
	p.keys, err = newCDIKeys(p.pki)
	return err
}

// applyManifests applies all objects except the registrations, which would make every write fail
// until the components answer.
func (p *provider) applyManifests(ctx context.Context) error {
	ports, err := process.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	p.kubeVirtPort = ports[0]
	p.cdiPort = ports[1]
	objects, err := p.ownObjects()
	if err != nil {
		return err
	}
	for file, port := range map[string]int{
		p.options.Binaries.KubeVirtManifests: p.kubeVirtPort, p.options.Binaries.CDIManifests: p.cdiPort,
	} {
		others, err := p.manifest(file, port)
		if err != nil {
			return err
		}
		objects = append(objects, others...)
	}
	if err := p.apply(ctx, objects); err != nil {
		return err
	}
	return p.markDeployed(ctx)
}

// manifest returns the objects of KubeVirt or CDI that the lab does not replace. It adapts the
// registrations to this lab, and adds them to those of the provider.
func (p *provider) manifest(file string, port int) ([]unstructured.Unstructured, error) {
	own, err := p.ownObjects()
	if err != nil {
		return nil, err
	}
	objects, err := readList(file)
	if err != nil {
		return nil, err
	}
	var kept []unstructured.Unstructured
	for _, o := range objects {
		switch {
		case slices.ContainsFunc(own, func(mine unstructured.Unstructured) bool { return same(o, mine) }):
		case isRegistration(o):
			if err := point(o, endpoint{port: port, ca: p.pki.ca.pem}); err != nil {
				return nil, err
			}
			p.registrations = append(p.registrations, o)
		default:
			kept = append(kept, o)
		}
	}
	return kept, nil
}

func same(a, b unstructured.Unstructured) bool {
	return a.GetKind() == b.GetKind() && a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace()
}

// startComponents starts all components at once and waits for each. The CustomResourceDefinitions
// must exist before, because virt-controller restarts itself when CDI's appear later.
func (p *provider) startComponents(ctx context.Context) error {
	return Together(ctx, p.runVirtAPI, func(ctx context.Context) error { return p.runControllerManager(ctx, "*") },
		p.runScheduler, p.runVirtController, p.runCDIAPIServer, p.runCDIController)
}

func (p *provider) runVirtAPI(ctx context.Context) error {
	file, err := p.writeKubeconfig(virtAPI, "virt-api")
	if err != nil {
		return err
	}
	certificate := p.pki.file("server.crt")
	key := p.pki.file("server.key")
	p.virtAPI, err = p.start("virt-api", p.options.Binaries.VirtAPI,
		"--kubeconfig="+file, "--listen="+loopback, fmt.Sprintf("--port=%d", p.kubeVirtPort),
		"--tls-cert-file="+certificate, "--tls-key-file="+key,
		"--handler-cert-file="+p.pki.file(handlerClient+".crt"), "--handler-key-file="+p.pki.file(handlerClient+".key"))
	if err != nil {
		return err
	}
	return p.awaitHealthy(ctx, p.virtAPI, "https://"+address(p.kubeVirtPort)+"/apis/subresources.kubevirt.io/v1/healthz")
}

func (p *provider) runVirtController(ctx context.Context) error {
	file, err := p.writeKubeconfig(virtController, "virt-controller")
	if err != nil {
		return err
	}
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	version := string(p.options.Binaries.KubeVirtVersion)
	launcher := cmp.Or(p.launcher, "lab.local/virt-launcher:"+version)
	p.virtController, err = p.start("virt-controller", p.options.Binaries.VirtController,
		"--kubeconfig="+file, "--listen="+loopback, fmt.Sprintf("--port=%d", ports[0]),
		"--prom-cert-file="+p.pki.file("server.crt"), "--prom-key-file="+p.pki.file("server.key"),
		"--launcher-image="+launcher, "--exporter-image=lab.local/virt-exportserver:"+version,
		// It has no second replica, and exits if it cannot renew its lease: the default of 10 s is short
		// for a busy machine.
		"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=50m")
	if err != nil {
		return err
	}
	return p.awaitHealthy(ctx, p.virtController, "https://"+address(ports[0])+"/leader")
}

func (p *provider) runCDIAPIServer(ctx context.Context) error {
	file, err := p.writeKubeconfig(cdiAPIServer, "cdi-apiserver")
	if err != nil {
		return err
	}
	started, err := p.start("cdi-apiserver", p.options.Binaries.CDIAPIServer,
		"--kubeconfig="+file, "--host="+loopback, fmt.Sprintf("--port=%d", p.cdiPort),
		"--tls-cert-file="+p.pki.file("server.crt"), "--tls-key-file="+p.pki.file("server.key"))
	if err != nil {
		return err
	}
	return p.awaitHealthy(ctx, started, "https://"+address(p.cdiPort)+"/healthz")
}

func (p *provider) runCDIController(ctx context.Context) error {
	file, err := p.writeKubeconfig(cdiController, "cdi-controller")
	if err != nil {
		return err
	}
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	started, err := p.start("cdi-controller", p.options.Binaries.CDIController,
		"--kubeconfig="+file, "--keys="+p.pki.dir, "--health-address="+address(ports[0]))
	if err != nil {
		return err
	}
	if err := AwaitHTTP(ctx, started, "http://"+address(ports[0])+"/readyz"); err != nil {
		return err
	}
	return p.configureStorage(ctx)
}
