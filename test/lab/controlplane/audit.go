package controlplane

import "path/filepath"

// auditPolicy makes the API server log the requests of service accounts: the requester, whether the
// request was allowed, and by which Role. It omits the frequent requests of Kubernetes' own
// controllers, KubeVirt and CDI, and all bodies. Gardener creates accounts of components in kube-system:
// the first rule is for that of the extension's admission.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["system:serviceaccount:kube-system:extension-admission-provider-kubevirt"]
  - level: None
    userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:kubevirt", "system:serviceaccounts:cdi"]
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
`

// AuditLog returns the path of the log of the service accounts' requests: JSON lines of
// audit.k8s.io/v1 Events. Older parts of a large log are in the same folder. The log is
// removed with the cluster.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }
