// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// The network of the nodes: a bridge, on which the lab itself has the address Gateway.
const (
	Gateway = "10.99.0.1"
	// Registry is the address of the registry from which the nodes pull images that they do not import, without TLS.
	Registry = Gateway + ":5000"
	bridge   = "lab"
	// loadBalancers are the addresses that load balancers of the provider cluster have, which lead to the first node. They are
	// reserved for documentation.
	loadBalancers = "192.0.2.0/24"
	nodePrefix    = "10.99.0."
	firstNode     = 11 // the last byte of the first node's address
)

// Bridges returns the names of bridges on every node, each of which is joined with those of the other nodes, for machines that
// are not only in the network of pods.
func Bridges() []string { return []string{"br-tenant", "br-shared"} }

// BridgeMTU is the size of packets that the tunnels between the bridges leave.
const BridgeMTU = 1450

func (n *node) address() string    { return fmt.Sprint(nodePrefix, firstNode+n.index) }
func (n *node) podSubnet() string  { return fmt.Sprintf("10.99.%d.0/24", 101+n.index) } //nolint:mnd // beside the nodes' network
func (n *node) hostDevice() string { return fmt.Sprint("lab", n.index) }
func (n *node) device() string     { return fmt.Sprint("node", n.index) } // which runc moves into the node

// connect makes the bridge, and joins the nodes to it.
func (n *Nodes) connect(ctx context.Context) error {
	err := n.ip(ctx,
		"link add "+bridge+" type bridge",
		"addr add "+Gateway+"/24 dev "+bridge,
		"link set "+bridge+" up",
	)
	if err != nil {
		return err
	}
	for _, one := range n.nodes {
		if err := n.plug(ctx, one); err != nil {
			return err
		}
	}
	if err := n.ip(ctx, "route replace "+loadBalancers+" via "+n.nodes[0].address()); err != nil {
		return err
	}
	// It belongs to the network namespace, not to the machine.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("forward packets between pods: %w", err)
	}
	return nil
}

// plug makes a pair of interfaces, of which runc moves one into the node, and the route to the node's pods.
func (n *Nodes) plug(ctx context.Context, one *node) error {
	return n.ip(ctx,
		"link add "+one.hostDevice()+" type veth peer name "+one.device(),
		"link set "+one.hostDevice()+" master "+bridge+" up",
		"route replace "+one.podSubnet()+" via "+one.address(),
	)
}

// ip runs the program of the root folder, since this machine may lack it.
func (n *Nodes) ip(ctx context.Context, calls ...string) error {
	for _, arguments := range calls {
		command := exec.CommandContext(ctx, "/usr/bin/ip", strings.Fields(arguments)...)
		command.Dir = "/"
		command.SysProcAttr = process.BoundToParent()
		command.SysProcAttr.Chroot = n.options.Root
		if err := process.Run(ctx, command); err != nil {
			return fmt.Errorf("ip %s: %w", arguments, err)
		}
	}
	return nil
}
