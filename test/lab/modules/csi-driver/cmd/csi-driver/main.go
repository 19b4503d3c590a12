// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command csi-driver takes the place of KubeVirt's CSI driver, whose module is not served by the Go module proxy. It
// has the controller service of kubevirt/csi-driver 27b52aa2: its flags, its requests to the two clusters, and its
// answers to the sidecars. Comments name the functions there.
//
// The lab of the Gardener extension runs it beside the real sidecars, with the arguments, the environment and the
// accounts of the extension's Deployment. It has no node service: its caller (extension/test/seed) acts for that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// options are the flags of KubeVirt's driver that the extension sets.
type options struct {
	endpoint                             string
	infraKubeconfig, infraNamespace      string
	infraLabels, tenantKubeconfig        string
	runControllerService, runNodeService bool
}

func main() {
	if err := run(parse()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() options {
	o := options{}
	flag.StringVar(&o.endpoint, "endpoint", "unix:/csi/csi.sock", "CSI endpoint")
	flag.StringVar(&o.infraKubeconfig, "infra-cluster-kubeconfig", "", "kubeconfig for the provider cluster")
	flag.StringVar(&o.infraNamespace, "infra-cluster-namespace", "", "namespace in the provider cluster")
	flag.StringVar(&o.infraLabels, "infra-cluster-labels", "", "labels of objects in the provider cluster: key=value,...")
	flag.StringVar(&o.tenantKubeconfig, "tenant-cluster-kubeconfig", "", "kubeconfig for the shoot")
	flag.BoolVar(&o.runControllerService, "run-controller-service", true, "run the controller service")
	flag.BoolVar(&o.runNodeService, "run-node-service", true, "run the node service, which this program does not have")
	flag.Int("v", 0, "has no effect")
	flag.Parse()
	return o
}

var errNoNodeService = errors.New("this program has a controller service only")

func run(o options) error {
	if o.runNodeService || !o.runControllerService {
		return errNoNodeService
	}
	d, err := newDriver(o, os.Getenv("INFRA_STORAGE_CLASS_ENFORCEMENT"))
	if err != nil {
		return err
	}
	socket := strings.TrimPrefix(strings.TrimPrefix(o.endpoint, "unix://"), "unix:")
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) { // left by a process that was killed
		return fmt.Errorf("remove the old socket: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, &identity{infra: d.discovery})
	csi.RegisterControllerServer(server, &controller{driver: d})
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// logged writes one line for each call that failed or changed something.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if err != nil || !strings.Contains(info.FullMethod, "Identity/") {
		fmt.Fprintln(os.Stderr, info.FullMethod, request, "error:", err)
	}
	return response, err
}
