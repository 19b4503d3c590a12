// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
)

const (
	// programQPS and programBurst limit the requests per second of a program.
	programQPS, programBurst = 20, 40
	// programHost takes the place of the server's name in the metrics of a program: the connection chooses
	// the server.
	programHost = "http://provider-cluster"
)

// Program is the client of a program that runs as long as its shoot. In contrast to a Cluster of a
// reconciliation, all its requests together may take any time.
type Program struct {
	Cluster

	watched client.WithWatch
}

// NewProgram returns the client of a program with this name, in a namespace of the provider cluster.
func NewProgram(name, namespace string, source *connection.Source) (*Program, error) {
	config := &rest.Config{Host: programHost, UserAgent: name, QPS: programQPS, Burst: programBurst, Transport: source}

	// The transport of the source bounds the responses.
	watched, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create client of the provider cluster: %w", err)
	}

	return ProgramOf(watched, namespace), nil
}

// ProgramOf returns the client of a program that sends its requests with another client.
func ProgramOf(watched client.WithWatch, namespace string) *Program {
	return &Program{
		Cluster: Cluster{Client: &requests{Client: watched, program: true}, Namespace: namespace},
		watched: watched,
	}
}
