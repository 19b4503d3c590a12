// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "path/filepath"

// auditPolicy makes the API server log the requests of service accounts: the requester, whether the
// request was allowed, and by which Role. It omits the frequent requests of Kubernetes' own
// controllers, KubeVirt and CDI, and all bodies. Gardener creates accounts of components in kube-system:
// the first rule is for those of the extension's admission and of its programs in the control planes of shoots.
// The last group is that of extension/example/authentication-configuration.yaml. The last rule is for requests
// with credentials that the API server does not accept.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users:
    - system:serviceaccount:kube-system:extension-admission-provider-kubevirt
    - system:serviceaccount:kube-system:cloud-controller-manager
    - system:serviceaccount:kube-system:csi-attacher
    - system:serviceaccount:kube-system:csi-driver-controller
    - system:serviceaccount:kube-system:csi-driver-node
    - system:serviceaccount:kube-system:csi-provisioner
    - system:serviceaccount:kube-system:csi-resizer
    - system:serviceaccount:kube-system:csi-snapshot-controller
    - system:serviceaccount:kube-system:csi-snapshotter
  - level: None
    userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:kubevirt", "system:serviceaccounts:cdi"]
  - level: Metadata
    userGroups: ["system:serviceaccounts", "gardener:workloadidentities"]
  - level: None
    userGroups: ["system:authenticated"]
  - level: Metadata
`

// AuditLog returns the path of the log of the service accounts' requests: JSON lines of
// audit.k8s.io/v1 Events. Older parts of a large log are in the same folder. The log is
// removed with the cluster.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }
