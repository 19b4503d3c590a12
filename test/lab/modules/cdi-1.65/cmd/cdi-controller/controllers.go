// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	ocpconfigv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"
	routev1 "github.com/openshift/api/route/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	forklift "kubevirt.io/containerized-data-importer-api/pkg/apis/forklift/v1beta1"
	"kubevirt.io/containerized-data-importer/pkg/controller"
	"kubevirt.io/containerized-data-importer/pkg/controller/datavolume"
	"kubevirt.io/containerized-data-importer/pkg/controller/populators"
	"kubevirt.io/containerized-data-importer/pkg/controller/transfer"
	"kubevirt.io/containerized-data-importer/pkg/util/cert/fetcher"
	"kubevirt.io/containerized-data-importer/pkg/util/cert/generator"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	namespace = "cdi" // also a constant in CDI's code
	// The images are never pulled: kubelets are simulated, or have imported them (test/lab/node/images).
	importer     = "lab.local/cdi-importer:latest"
	cloner       = "lab.local/cdi-cloner:latest"
	uploadServer = "lab.local/cdi-uploadserver:latest"
	pullPolicy   = "IfNotPresent"
	verbosity    = "1"
)

// newManager returns a manager without metrics and leader election: a lab has only one controller,
// and should not wait for a lease to expire.
func newManager(config *rest.Config, health string) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, cdiv1beta1.AddToScheme, extv1.AddToScheme, snapshotv1.AddToScheme,
		forklift.AddToScheme, imagev1.Install, ocpconfigv1.Install, routev1.Install,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	own := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.namespace", namespace)}
	m, err := manager.New(config, manager.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: health,
		// CDI's Role allows it to list these kinds only in its own namespace.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&networkingv1.Ingress{}: own, &batchv1.CronJob{}: own, &batchv1.Job{}: own,
			&corev1.ConfigMap{}: own, &corev1.Secret{}: own,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	if err := m.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	return m, nil
}

// setup holds the common arguments of the constructors of CDI's controllers.
type setup struct {
	manager    manager.Manager
	tokens     tokens
	clientCert generator.CertGenerator
	serverCert generator.CertGenerator
	clientCA   fetcher.CertBundleFetcher
	serverCA   fetcher.CertBundleFetcher
	labels     map[string]string
}

func newSetup(config *rest.Config, m manager.Manager, keys string) (*setup, error) {
	t, err := readTokens(keys)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create Kubernetes client: %w", err)
	}
	signer := func(name string) generator.CertGenerator {
		file := filepath.Join(keys, name)
		return &generator.FetchCertGenerator{
			Fetcher: &fetcher.FileCertFetcher{CertFileName: file + ".crt", KeyFileName: file + ".key"},
		}
	}
	bundle := func(name string) fetcher.CertBundleFetcher {
		return &fetcher.ConfigMapCertBundleFetcher{Name: name, Client: kube.CoreV1().ConfigMaps(namespace)}
	}
	return &setup{
		manager:    m,
		tokens:     t,
		labels:     map[string]string{},
		clientCert: signer("upload-client"),
		clientCA:   bundle("cdi-uploadserver-client-signer-bundle"),
		serverCert: signer("upload-server"),
		serverCA:   bundle("cdi-uploadserver-signer-bundle"),
	}, nil
}

// addAll adds the controllers in the order required by their shared indexes.
func (s *setup) addAll(ctx context.Context) error {
	for _, add := range []func(context.Context) error{
		s.addConfiguration, s.addDataVolumes, s.addClaims, s.addImages, s.addPopulators,
	} {
		if err := add(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) addConfiguration(context.Context) error {
	m := s.manager
	if _, err := controller.NewConfigController(m, logf.Log, "cdi-uploadproxy", "config", s.labels); err != nil {
		return fmt.Errorf("add CDIConfig controller: %w", err)
	}
	if _, err := controller.NewStorageProfileController(m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add StorageProfile controller: %w", err)
	}
	return nil
}

func (s *setup) addDataVolumes(ctx context.Context) error {
	m := s.manager
	if err := datavolume.CreateCommonIndexes(m); err != nil {
		return fmt.Errorf("index DataVolumes: %w", err)
	}
	if _, err := datavolume.NewImportController(ctx, m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add DataVolume import controller: %w", err)
	}
	if _, err := datavolume.NewUploadController(ctx, m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add DataVolume upload controller: %w", err)
	}
	if _, err := datavolume.NewPvcCloneController(ctx, m, logf.Log, cloner, importer, pullPolicy,
		s.tokens.public, s.tokens.private, s.labels); err != nil {
		return fmt.Errorf("add DataVolume clone controller: %w", err)
	}
	if _, err := datavolume.NewSnapshotCloneController(ctx, m, logf.Log, cloner, importer, pullPolicy,
		s.tokens.public, s.tokens.private, s.labels); err != nil {
		return fmt.Errorf("add DataVolume snapshot controller: %w", err)
	}
	if _, err := datavolume.NewPopulatorController(ctx, m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add DataVolume population controller: %w", err)
	}
	return nil
}

func (s *setup) addClaims(context.Context) error {
	m := s.manager
	if _, err := controller.NewImportController(m, logf.Log, importer, pullPolicy, verbosity, s.labels); err != nil {
		return fmt.Errorf("add import controller: %w", err)
	}
	if _, err := controller.NewCloneController(m, logf.Log, cloner, pullPolicy, verbosity, s.clientCert, s.serverCA,
		s.tokens.public, s.labels); err != nil {
		return fmt.Errorf("add clone controller: %w", err)
	}
	if _, err := controller.NewUploadController(m, logf.Log, uploadServer, pullPolicy, verbosity, s.serverCert, s.clientCA,
		s.labels); err != nil {
		return fmt.Errorf("add upload controller: %w", err)
	}
	if _, err := transfer.NewObjectTransferController(m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add transfer controller: %w", err)
	}
	return nil
}

func (s *setup) addImages(context.Context) error {
	m := s.manager
	if _, err := controller.NewDataImportCronController(m, logf.Log, importer, pullPolicy, s.labels); err != nil {
		return fmt.Errorf("add DataImportCron controller: %w", err)
	}
	if _, err := controller.NewDataSourceController(m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add DataSource controller: %w", err)
	}
	return nil
}

func (s *setup) addPopulators(ctx context.Context) error {
	m := s.manager
	if err := populators.CreateCommonPopulatorIndexes(m); err != nil {
		return fmt.Errorf("index populators: %w", err)
	}
	if _, err := populators.NewImportPopulator(ctx, m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add import populator: %w", err)
	}
	if _, err := populators.NewUploadPopulator(ctx, m, logf.Log, s.labels); err != nil {
		return fmt.Errorf("add upload populator: %w", err)
	}
	if _, err := populators.NewClonePopulator(ctx, m, logf.Log, cloner, pullPolicy, s.labels, s.tokens.public); err != nil {
		return fmt.Errorf("add clone populator: %w", err)
	}
	if _, err := populators.NewForkliftPopulator(ctx, m, logf.Log, importer, importer, s.labels); err != nil {
		return fmt.Errorf("add forklift populator: %w", err)
	}
	return nil
}
