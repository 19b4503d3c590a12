package controlplane

import "path/filepath"

// auditPolicy has the API server write down who asked what, and whether that was allowed and by which Role: of service accounts, but
// those of Kubernetes' own controllers and of KubeVirt and CDI, which ask much. No bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:kubevirt", "system:serviceaccounts:cdi"]
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
`

// AuditLog returns the path of the log of all that service accounts asked of the API server: JSON lines of audit.k8s.io/v1 Events.
// Beside it are older parts of it, if it is large. It ends with the cluster.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }
