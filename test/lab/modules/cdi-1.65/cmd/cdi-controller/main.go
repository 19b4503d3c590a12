// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command cdi-controller runs CDI's controllers without their metrics server.
//
// The lab's control plane starts it. CDI's own main binds the constant port 8443 and reads keys
// from constant paths, so two labs on one machine would collide. This one is assembled from CDI's
// exported constructors and gets its files from a flag. It knows nothing of the lab.
package main

import (
	"context"
	"crypto/rsa"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"kubevirt.io/containerized-data-importer/pkg/controller"
	metrics "kubevirt.io/containerized-data-importer/pkg/monitoring/metrics/cdi-controller"
	"kubevirt.io/containerized-data-importer/pkg/util/cert"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	defer klog.Flush()
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the identity to run as")
	keys := flag.String("keys", "", "folder with id_rsa, id_rsa.pub, upload-server.{crt,key} and upload-client.{crt,key}")
	health := flag.String("health-address", "127.0.0.1:0", "host:port that serves /readyz")
	klog.InitFlags(nil)
	flag.Parse()
	logf.SetLogger(klog.Background())
	if err := run(signals.SetupSignalHandler(), *kubeconfig, *keys, *health); err != nil {
		klog.ErrorS(err, "cdi-controller ends")
		klog.Flush()
		os.Exit(1) //nolint:gocritic // flushed above
	}
}

func run(ctx context.Context, kubeconfig, keys, health string) error {
	if err := metrics.SetupMetrics(); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = 200
	config.Burst = 400
	m, err := newManager(config, health)
	if err != nil {
		return err
	}
	s, err := newSetup(config, m, keys)
	if err != nil {
		return err
	}
	if err := s.addAll(ctx); err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// tokens is the key pair that signs and verifies CDI's clone tokens.
type tokens struct {
	public  *rsa.PublicKey
	private *rsa.PrivateKey
}

func readTokens(folder string) (tokens, error) {
	public, err := os.ReadFile(filepath.Join(folder, "id_rsa.pub"))
	if err != nil {
		return tokens{}, fmt.Errorf("read token key: %w", err)
	}
	private, err := os.ReadFile(filepath.Join(folder, "id_rsa"))
	if err != nil {
		return tokens{}, fmt.Errorf("read token key: %w", err)
	}
	publicKey, err := controller.DecodePublicKey(public)
	if err != nil {
		return tokens{}, fmt.Errorf("decode public token key: %w", err)
	}
	parsed, err := cert.ParsePrivateKeyPEM(private)
	if err != nil {
		return tokens{}, fmt.Errorf("decode private token key: %w", err)
	}
	privateKey, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return tokens{}, fmt.Errorf("private token key is a %T, not an RSA key", parsed)
	}
	return tokens{public: publicKey, private: privateKey}, nil
}
