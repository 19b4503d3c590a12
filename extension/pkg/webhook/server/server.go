// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package server bounds the memory and time that requests take of the webhook server. The kube-apiservers
// of all shoots of the seed call it, and the owner of a shoot can make its kube-apiserver send any
// objects to any path, so that no path trusts its callers. The package must not depend on the webhooks,
// and must not call a cluster.
package server

import (
	"context"
	"net/http" //nolint:depguard // of the requests to the webhook server; the package does not call a provider cluster

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Server is a webhook server with limits.
type Server struct {
	// DefaultServer only registers webhooks: Gardener's library requires this type.
	*webhook.DefaultServer

	// bounded serves the registered webhooks.
	bounded webhook.Server
}

// New creates a server.
func New(options webhook.Options) *Server {
	registered := http.NewServeMux()
	bounded := http.NewServeMux()
	bounded.Handle("/", newLimiter(total, share).limited(registered))

	front := options
	front.WebhookMux = bounded
	options.WebhookMux = registered

	return &Server{DefaultServer: &webhook.DefaultServer{Options: options}, bounded: webhook.NewServer(front)}
}

// Start implements webhook.Server.
func (s *Server) Start(ctx context.Context) error {
	return s.bounded.Start(ctx)
}

// StartedChecker implements webhook.Server.
func (s *Server) StartedChecker() healthz.Checker {
	return s.bounded.StartedChecker()
}

// Registrar returns the manager for Gardener's functions that register webhooks.
func Registrar(mgr manager.Manager) manager.Manager {
	return registrar{Manager: mgr}
}

// registrar is a manager whose webhook server has the type that Gardener's library requires.
type registrar struct {
	manager.Manager
}

// GetWebhookServer implements manager.Manager.
func (r registrar) GetWebhookServer() webhook.Server {
	server := r.Manager.GetWebhookServer()
	if s, ok := server.(*Server); ok {
		return s.DefaultServer
	}

	return server
}
