// Package upgrade tests that machines outlive an upgrade of KubeVirt in place. Its tests have the
// build tag soak, and a lab of their own, since the other tests share theirs.
package upgrade
