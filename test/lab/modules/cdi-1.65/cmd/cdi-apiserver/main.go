// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command cdi-apiserver runs CDI's webhook and upload API server on a configurable address.
//
// The lab's control plane starts it. CDI's own main listens on the constant address 0.0.0.0:8443,
// so two labs on one machine would collide. This one is assembled from CDI's exported API and
// configured by flags. It knows nothing of the lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"kubevirt.io/containerized-data-importer/pkg/apiserver"
	cdiclient "kubevirt.io/containerized-data-importer/pkg/client/clientset/versioned"
	"kubevirt.io/containerized-data-importer/pkg/controller/datavolume"
	certwatcher "kubevirt.io/containerized-data-importer/pkg/util/cert/watcher"
	cryptowatch "kubevirt.io/containerized-data-importer/pkg/util/tls-crypto-watch"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

type options struct {
	kubeconfig string
	host       string
	port       uint
	certFile   string
	keyFile    string
}

func main() {
	defer klog.Flush()
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the identity to run as")
	flag.StringVar(&o.host, "host", "127.0.0.1", "IP address to listen on")
	flag.UintVar(&o.port, "port", 0, "port to listen on")
	flag.StringVar(&o.certFile, "tls-cert-file", "", "serving certificate (PEM)")
	flag.StringVar(&o.keyFile, "tls-key-file", "", "key of the serving certificate (PEM)")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(signals.SetupSignalHandler(), o); err != nil {
		klog.ErrorS(err, "cdi-apiserver ends")
		klog.Flush()
		os.Exit(1) //nolint:gocritic // flushed above
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = 200
	config.Burst = 400
	reader, err := newReader(config)
	if err != nil {
		return err
	}
	certificates, err := certwatcher.New(o.certFile, o.keyFile)
	if err != nil {
		return fmt.Errorf("watch serving certificate: %w", err)
	}
	server, err := newServer(ctx, config, o, reader.client, certificates)
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- reader.cache.Start(ctx) }()
	if !reader.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("sync caches: %w", ctx.Err())
	}
	go func() { failed <- certificates.Start(ctx.Done()) }()
	go func() { failed <- server.Start(ctx.Done()) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func newServer(ctx context.Context, config *rest.Config, o options, reader client.Client,
	certificates *certwatcher.CertWatcher,
) (apiserver.CdiAPIServer, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create Kubernetes client: %w", err)
	}
	aggregator, err := aggregatorclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create aggregator client: %w", err)
	}
	cdi, err := cdiclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create CDI client: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create snapshot client: %w", err)
	}
	requestHeader, err := apiserver.NewAuthConfigWatcher(ctx, kube)
	if err != nil {
		return nil, fmt.Errorf("watch request header configuration: %w", err)
	}
	cryptography, err := cryptowatch.NewCdiConfigTLSWatcher(ctx, cdi)
	if err != nil {
		return nil, fmt.Errorf("watch TLS settings: %w", err)
	}
	authorizer, err := apiserver.NewAuthorizorFromConfig(config, requestHeader)
	if err != nil {
		return nil, fmt.Errorf("create authorizer: %w", err)
	}
	server, err := apiserver.NewCdiAPIServer(o.host, o.port, kube, aggregator, cdi, snapshots, reader, authorizer,
		requestHeader, cryptography, certificates, map[string]string{})
	if err != nil {
		return nil, fmt.Errorf("create server: %w", err)
	}
	return server, nil
}

// reader serves the three storage kinds, which the webhooks read on every request, from a cache,
// and all other kinds from the API.
type reader struct {
	cache  cache.Cache
	client client.Client
}

func newReader(config *rest.Config) (*reader, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, cdiv1beta1.AddToScheme, snapshotv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	objects, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create cache: %w", err)
	}
	if err := datavolume.CreateAvailablePersistentVolumeIndex(objects); err != nil {
		return nil, fmt.Errorf("index persistent volumes: %w", err)
	}
	c, err := client.New(config, client.Options{
		Scheme: scheme,
		Cache: &client.CacheOptions{
			Reader: objects,
			DisableFor: []client.Object{
				&corev1.PersistentVolumeClaim{}, &corev1.Namespace{}, &corev1.Secret{}, &corev1.ServiceAccount{}, &corev1.Pod{},
				&cdiv1beta1.DataVolume{}, &cdiv1beta1.DataSource{}, &cdiv1beta1.CDI{}, &cdiv1beta1.CDIConfig{},
				&snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{}, &snapshotv1.VolumeSnapshotClass{},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &reader{cache: objects, client: c}, nil
}
