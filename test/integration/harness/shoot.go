// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Shoot is a shoot for a single test, with administrator clients for both clusters.
type Shoot struct {
	*environment.Shoot

	Kube     kubernetes.Interface // of the provider cluster
	KubeVirt kubevirt.Interface
	CDI      containerizeddataimporter.Interface
	Target   kubernetes.Interface
	MCM      mcmclient.Interface

	Controller *process.Process // the sidecar, after RunControllers has started it
}

// NewShoot adds a shoot to the lab, with its own namespaces, identities and permissions.
func NewShoot(t *testing.T) *Shoot {
	t.Helper()

	made, err := lab.AddShoot(t.Context(), "t"+rand.String(6))
	require.NoError(t, err)

	made.ProviderKubeconfig, err = withCanaries(made.ProviderKubeconfig)
	require.NoError(t, err)

	s := &Shoot{Shoot: made}
	provider := repeating(lab.Provider.Config())

	s.Kube, err = kubernetes.NewForConfig(provider)
	require.NoError(t, err)
	s.KubeVirt, err = kubevirt.NewForConfig(provider)
	require.NoError(t, err)
	s.CDI, err = containerizeddataimporter.NewForConfig(provider)
	require.NoError(t, err)
	s.Target, err = kubernetes.NewForConfig(lab.Control.Config())
	require.NoError(t, err)
	s.MCM, err = mcmclient.NewForConfig(lab.Control.Config())
	require.NoError(t, err)

	return s
}

// Impersonate returns the config of a user of the provider cluster.
func (*Shoot) Impersonate(user string, groups ...string) *rest.Config {
	config := repeating(lab.Provider.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}

	return config
}
