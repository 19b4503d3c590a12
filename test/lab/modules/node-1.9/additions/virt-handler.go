// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This file is compiled into KubeVirt's command virt-handler, and changes it on kernels without the driver of dummy interfaces. For a bridge
// to a pod's interface, virt-handler leaves such an interface in the pod, with the name and the addresses of the one that it has moved into
// the bridge, for Multus and kubelet to see. A bridge without ports takes its place, through which no packet passes either.
package main

import (
	"errors"
	_ "unsafe" // for linkname

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"kubevirt.io/kubevirt/pkg/network/driver/nmstate"
)

//go:linkname linkConfigByType kubevirt.io/kubevirt/pkg/network/driver/nmstate.linkConfigByType
var linkConfigByType map[string]func(nmstate.Interface) (netlink.Link, error)

func init() {
	probe := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "lab-probe"}}

	err := netlink.LinkAdd(probe)
	if err == nil {
		_ = netlink.LinkDel(probe) // it is in virt-handler's own network namespace
	}

	if !errors.Is(err, unix.EOPNOTSUPP) {
		return
	}

	linkConfigByType[nmstate.TypeDummy] = func(i nmstate.Interface) (netlink.Link, error) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = i.Name

		return &placeholder{Bridge: netlink.Bridge{LinkAttrs: attributes}}, nil
	}
}

// placeholder is a bridge that claims to be a dummy interface after it was added.
type placeholder struct{ netlink.Bridge }

// Type implements netlink.Link.
func (p *placeholder) Type() string {
	if p.Index == 0 {
		return p.Bridge.Type()
	}

	return nmstate.TypeDummy
}
