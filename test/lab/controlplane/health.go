// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const (
	pollEvery    = 100 * time.Millisecond
	startTimeout = 10 * time.Minute // Only ends a hung start: the machine may be busy.
)

func newWebClient(pool *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		},
	}
}

// awaitHealthy waits until url answers 200. It fails at once when the process exits.
func (c *Cluster) awaitHealthy(ctx context.Context, p *process.Process, url string) error {
	return Await(ctx, p, func(ctx context.Context) error { return get(ctx, c.web, url) })
}

// AwaitHTTP waits until a plain HTTP URL of a process answers 200. It fails at
// once when the process exits.
func AwaitHTTP(ctx context.Context, p *process.Process, url string) error {
	return Await(ctx, p, func(ctx context.Context) error { return get(ctx, http.DefaultClient, url) })
}

// Await polls check until it returns nil. It fails at once when the process exits,
// with the end of its output.
func Await(ctx context.Context, p *process.Process, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, err
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && p.Err() == nil {
		return fmt.Errorf("wait for %s (log %s): %w", p.Name(), p.LogFile(), errors.Join(err, last))
	}
	return err
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read-only
	if response.StatusCode != http.StatusOK {
		const enough = 1000
		body, _ := io.ReadAll(io.LimitReader(response.Body, enough)) // only quoted in the error
		return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return nil
}
