// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs the two real Kubernetes control planes of the lab as processes.
//
// The environment starts one "provider" cluster, with KubeVirt and CDI, and one "control" cluster,
// with machine-controller-manager's resources, which also serves as the shoot ("target"). Each has
// its own etcd, certificates and identities; every component runs as its own user with its real
// RBAC objects. The package does not know the driver, machines, or the simulated data plane.
package controlplane

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Options configures a cluster.
type Options struct {
	Dir      string             // for this cluster's data, certificates and kubeconfigs; created
	Group    *process.Group     // owns the cluster's processes
	Binaries *binaries.Binaries // what to run
	// NodeMonitorGrace is how long a node may send no heartbeat before it becomes not ready; zero
	// keeps the Kubernetes default.
	NodeMonitorGrace time.Duration
	// Toleration is how long pods stay on a node that is not ready; zero keeps
	// the Kubernetes default.
	Toleration time.Duration
	// SpendMemory lets the components use more memory, to save CPU time.
	SpendMemory bool
	// Kubelets lets real kubelets join; nil if there are only simulated ones.
	Kubelets *Kubelets
	// Nodes are the real nodes of the provider cluster; nil if they are simulated.
	Nodes *Nodes
}

// Cluster is a running control plane.
type Cluster struct {
	Name            string
	ServerURL       string
	EtcdURL         string
	AdminKubeconfig string // path of a kubeconfig with all permissions

	options    Options
	dir        string
	pki        *pki
	identities map[string]identity
	web        *http.Client // trusts the cluster's CA
	provider   *provider    // only in the process that has started KubeVirt
}

// Config returns a client configuration with all permissions and high request limits.
func (c *Cluster) Config() *rest.Config { return c.config(admin) }

// VirtHandlerConfig returns a client configuration for KubeVirt's node agent. KubeVirt's webhooks
// accept changes of running VirtualMachineInstances only from it, not from an administrator. It
// impersonates the service account, since a static token cannot name the node of a request, which
// KubeVirt requires since 1.9; the requests do (package dataplane).
func (c *Cluster) VirtHandlerConfig() *rest.Config {
	config := c.config(admin)
	config.Impersonate.UserName = virtHandler
	return config
}

// newCluster creates folders, certificates, identities and kubeconfigs. It
// does not start processes.
func newCluster(name string, o Options, users ...string) (*Cluster, error) {
	c := &Cluster{Name: name, options: o, dir: o.Dir, identities: map[string]identity{}}
	var err error
	if c.pki, err = newPKI(filepath.Join(o.Dir, "pki"), name, o.serverNames()...); err != nil {
		return nil, fmt.Errorf("create certificates of cluster %s: %w", name, err)
	}
	var all []identity
	for _, user := range slices.Concat(users, []string{admin, controllerManager}, o.kubeletUsers()) {
		i, err := newIdentity(user)
		if err != nil {
			return nil, err
		}
		c.identities[user], all = i, append(all, i)
	}
	if err := c.pki.write("tokens.csv", tokenFile(all)); err != nil {
		return nil, err
	}
	if err := c.pki.write("audit.yaml", []byte(auditPolicy)); err != nil {
		return nil, err
	}
	if err := c.prepareKubelets(); err != nil {
		return nil, err
	}
	if err := c.prepareNodes(); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(c.pki.ca.certificate)
	c.web = newWebClient(pool)
	return c, nil
}

// apiServer is the name of the API server's process.
const apiServer = "kube-apiserver"

// issuer issues the tokens of service accounts.
const issuer = "https://kubernetes.default.svc"

// startAPI starts etcd and kube-apiserver and waits until the API server is ready.
func (c *Cluster) startAPI(ctx context.Context, extraArgs ...string) error {
	const wanted = 3
	ports, err := process.FreePorts(ctx, wanted)
	if err != nil {
		return err
	}
	c.EtcdURL = "http://" + address(ports[0])
	if _, err := c.start("etcd", c.options.Binaries.Etcd, c.etcdArgs("http://"+address(ports[1]))...); err != nil {
		return err
	}
	c.ServerURL = "https://" + address(ports[2])
	if c.AdminKubeconfig, err = c.writeKubeconfig(admin, "admin"); err != nil {
		return err
	}
	args := append(c.apiServerArgs(ports[2]), extraArgs...)
	server, err := c.start(apiServer, c.options.Binaries.KubeAPIServer, args...)
	if err != nil {
		return err
	}
	return c.awaitHealthy(ctx, server, c.ServerURL+"/readyz")
}

func (c *Cluster) etcdArgs(peer string) []string {
	return []string{
		"--name=lab",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + c.EtcdURL, "--advertise-client-urls=" + c.EtcdURL,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
		"--unsafe-no-fsync", // the data is removed with the lab
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(port int) []string {
	p := c.pki
	args := []string{
		"--etcd-servers=" + c.EtcdURL,
		"--bind-address=" + c.options.bindAddress(), "--secure-port=" + fmt.Sprint(port),
		"--advertise-address=" + loopback, "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + p.file("server.crt"), "--tls-private-key-file=" + p.file("server.key"),
		"--client-ca-file=" + p.file("ca.crt"),
		"--token-auth-file=" + p.file("tokens.csv"),
		"--authorization-mode=" + c.authorizationModes(),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + p.file("service-account.key"),
		"--service-account-signing-key-file=" + p.file("service-account.key"),
		"--service-cluster-ip-range=" + c.options.serviceRange(),
		"--requestheader-client-ca-file=" + p.file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + p.file("front-proxy-client.key"),
		"--allow-privileged", "--profiling=false",
		"--audit-policy-file=" + p.file("audit.yaml"), "--audit-log-path=" + c.AuditLog(),
	}
	if seconds := int(c.options.Toleration.Seconds()); seconds > 0 {
		args = append(args, fmt.Sprintf("--default-not-ready-toleration-seconds=%d", seconds),
			fmt.Sprintf("--default-unreachable-toleration-seconds=%d", seconds))
	}
	return append(append(args, c.kubeletArgs()...), c.nodeArgs()...)
}

// runControllerManager starts kube-controller-manager and waits for it. The
// CustomResourceDefinitions must exist before, because the garbage collector discovers
// new types only every 30 s.
func (c *Cluster) runControllerManager(ctx context.Context, controllers string) error {
	file, err := c.writeKubeconfig(controllerManager, "kube-controller-manager")
	if err != nil {
		return err
	}
	args := []string{
		"--controllers=" + controllers,
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + c.pki.file("service-account.key"),
		"--root-ca-file=" + c.pki.file("ca.crt"),
		"--pvclaimbinder-sync-period=2s", // retry period for a lost update between the binder and CDI
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
	if c.options.NodeMonitorGrace > 0 {
		args = append(args, "--node-monitor-grace-period="+c.options.NodeMonitorGrace.String(), "--node-monitor-period=2s")
	}
	return c.runKube(ctx, "kube-controller-manager", c.options.Binaries.KubeControllerManager, file, append(args, c.signingArgs()...)...)
}

// runScheduler starts kube-scheduler and waits for it.
func (c *Cluster) runScheduler(ctx context.Context) error {
	file, err := c.writeKubeconfig(scheduler, "kube-scheduler")
	if err != nil {
		return err
	}
	return c.runKube(ctx, "kube-scheduler", c.options.Binaries.KubeScheduler, file)
}

// runKube starts a component with the flags common to kube-controller-manager and
// kube-scheduler, and waits for it.
func (c *Cluster) runKube(ctx context.Context, name, binary, kubeconfig string, args ...string) error {
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	p, err := c.start(name, binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=" + loopback, fmt.Sprintf("--secure-port=%d", ports[0]),
		"--tls-cert-file=" + c.pki.file("server.crt"), "--tls-private-key-file=" + c.pki.file("server.key"),
	}, args...)...)
	if err != nil {
		return err
	}
	return c.awaitHealthy(ctx, p, "https://"+address(ports[0])+"/healthz")
}

// garbageCollection returns the settings of a component's garbage collection. With Go's default the
// suites take a fifth longer. A lab that runs for minutes starts sooner with less memory, since the
// kernel must clear the pages of a larger heap. GOMEMLIMIT keeps the API server from growing to several
// gigabytes; below the limit, GOGC applies.
func (o Options) garbageCollection(name string) []string {
	switch {
	case !o.SpendMemory:
		return []string{"GOGC=200", "GOMEMLIMIT=2GiB"}
	case name == apiServer:
		return []string{"GOGC=1000", "GOMEMLIMIT=3GiB"}
	default:
		return []string{"GOGC=400", "GOMEMLIMIT=2GiB"}
	}
}

func (c *Cluster) start(name, binary string, args ...string) (*process.Process, error) {
	p, err := c.options.Group.Start(process.Spec{
		Name: c.Name + "-" + name,
		Path: binary,
		Args: args,
		// Some components leave temporary files behind, which the lab deletes with their data.
		Env: append(c.options.garbageCollection(name), "TMPDIR="+c.dir),
		// An orderly shutdown of some components takes seconds and saves nothing: the data
		// is removed with the lab.
		Kill: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return p, nil
}
