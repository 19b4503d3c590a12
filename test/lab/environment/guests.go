// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/guest"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// GuestDisk is the container disk that ServeGuestDisk serves.
const GuestDisk = node.Registry + "/guest:1"

// ServeGuestDisk serves a disk image to the real nodes as the container disk GuestDisk, until the lab stops.
func (l *Lab) ServeGuestDisk(ctx context.Context, image string) error {
	registry, err := images.Registry(image, l.folder.data())
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", node.Registry)
	if err != nil {
		return fmt.Errorf("listen for the registry of the nodes: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: registry}
	go func() { _ = server.Serve(listener) }()
	l.stopRegistry = server.Close
	return nil
}

// GuestUserData returns the user data of kubernetes/example for guests of real nodes with the image of EnsureGuestImage, which join the
// target cluster.
func (l *Lab) GuestUserData() (string, error) {
	manifest, err := kubernetes.Manifests.ReadFile("example/userdata.yaml")
	if err != nil {
		return "", fmt.Errorf("read the example's user data: %w", err)
	}
	secret := &corev1.Secret{}
	if err := yaml.UnmarshalStrict(manifest, secret); err != nil {
		return "", fmt.Errorf("decode the example's user data: %w", err)
	}
	server, err := url.Parse(l.Target.ServerURL)
	if err != nil {
		return "", fmt.Errorf("parse the address of the target cluster: %w", err)
	}
	return guest.UserData(secret.StringData["userData"], "https://"+net.JoinHostPort(node.Gateway, server.Port()), l.Target.Config().CAData)
}
