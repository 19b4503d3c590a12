// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	controllercmd "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

const (
	flagConfigFile        = "config-file"
	flagHealthCheckPeriod = "healthcheck-sync-period"

	configVersion = "kubevirt.provider.extensions.config.gardener.cloud/v1alpha1"
	configKind    = "ControllerConfiguration"
)

// controllerConfiguration is the content of the file of --config-file. A flag takes precedence over its field.
type controllerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// ClientConnection limits the requests to the seed. It has no flags.
	ClientConnection struct {
		QPS   *float32 `json:"qps,omitempty"`
		Burst *int     `json:"burst,omitempty"`
	} `json:"clientConnection"`
	Controllers struct {
		Infrastructure            concurrency `json:"infrastructure"`
		ControlPlane              concurrency `json:"controlplane"`
		Worker                    concurrency `json:"worker"`
		Bastion                   concurrency `json:"bastion"`
		HealthCheck               healthCheck `json:"healthcheck"`
		IgnoreOperationAnnotation *bool       `json:"ignoreOperationAnnotation,omitempty"`
	} `json:"controllers"`
	AllowInternalProviderServers *bool `json:"allowInternalProviderServers,omitempty"`
	WorkloadIdentity             struct {
		AllowedServers []string `json:"allowedServers,omitempty"`
	} `json:"workloadIdentity"`
	LogLevel  *string `json:"logLevel,omitempty"`
	LogFormat *string `json:"logFormat,omitempty"`
}

// concurrency is the number of concurrent reconciliations of a controller.
type concurrency struct {
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// healthCheck also has the time between two checks of a resource.
type healthCheck struct {
	concurrency `json:",inline"`

	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// readConfiguration reads a file strictly.
func readConfiguration(file string) (*controllerConfiguration, error) {
	config := &controllerConfiguration{}

	content, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}

	raw, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}

	errs := providerspec.DecodeStrict(raw, nil, config)

	if config.APIVersion != configVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), config.APIVersion, []string{configVersion}))
	}

	if config.Kind != configKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), config.Kind, []string{configKind}))
	}

	return config, append(errs, config.validate()...).ToAggregate()
}

// validate returns the errors of numbers with which client-go and controller-runtime would use others, or none.
func (c *controllerConfiguration) validate() field.ErrorList {
	const message = "must be greater than 0"

	var errs field.ErrorList

	if qps := c.ClientConnection.QPS; qps != nil && *qps <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("clientConnection", "qps"), *qps, message))
	}

	numbers := map[string]*int{
		"clientConnection.burst":                     c.ClientConnection.Burst,
		"controllers.infrastructure.concurrentSyncs": c.Controllers.Infrastructure.ConcurrentSyncs,
		"controllers.controlplane.concurrentSyncs":   c.Controllers.ControlPlane.ConcurrentSyncs,
		"controllers.worker.concurrentSyncs":         c.Controllers.Worker.ConcurrentSyncs,
		"controllers.bastion.concurrentSyncs":        c.Controllers.Bastion.ConcurrentSyncs,
		"controllers.healthcheck.concurrentSyncs":    c.Controllers.HealthCheck.ConcurrentSyncs,
	}

	for _, path := range slices.Sorted(maps.Keys(numbers)) {
		if n := numbers[path]; n != nil && *n <= 0 {
			errs = append(errs, field.Invalid(field.NewPath(path), *n, message))
		}
	}

	return errs
}

// apply sets the flags that are not on the command line.
func (c *controllerConfiguration) apply(flags *pflag.FlagSet) error {
	for _, setting := range []struct {
		flag string
		text string
	}{
		{"infrastructure-" + controllercmd.MaxConcurrentReconcilesFlag, text(c.Controllers.Infrastructure.ConcurrentSyncs, strconv.Itoa)},
		{"controlplane-" + controllercmd.MaxConcurrentReconcilesFlag, text(c.Controllers.ControlPlane.ConcurrentSyncs, strconv.Itoa)},
		{"worker-" + controllercmd.MaxConcurrentReconcilesFlag, text(c.Controllers.Worker.ConcurrentSyncs, strconv.Itoa)},
		{"bastion-" + controllercmd.MaxConcurrentReconcilesFlag, text(c.Controllers.Bastion.ConcurrentSyncs, strconv.Itoa)},
		{"healthcheck-" + controllercmd.MaxConcurrentReconcilesFlag, text(c.Controllers.HealthCheck.ConcurrentSyncs, strconv.Itoa)},
		{flagHealthCheckPeriod, text(c.Controllers.HealthCheck.SyncPeriod, func(d metav1.Duration) string { return d.Duration.String() })},
		{controllercmd.IgnoreOperationAnnotationFlag, text(c.Controllers.IgnoreOperationAnnotation, strconv.FormatBool)},
		{kubevirt.FlagAllowInternalServers, text(c.AllowInternalProviderServers, strconv.FormatBool)},
		{kubevirt.FlagAllowedIdentityServers, strings.Join(c.WorkloadIdentity.AllowedServers, ",")},
		{controllercmd.LogLevelFlag, text(c.LogLevel, func(s string) string { return s })},
		{controllercmd.LogFormatFlag, text(c.LogFormat, func(s string) string { return s })},
	} {
		if setting.text == "" || flags.Changed(setting.flag) {
			continue
		}

		if err := flags.Set(setting.flag, setting.text); err != nil {
			return fmt.Errorf("set --%s: %w", setting.flag, err)
		}
	}

	return nil
}

// text returns a value as text; empty if it is not set.
func text[T any](value *T, format func(T) string) string {
	if value == nil {
		return ""
	}

	return format(*value)
}

// configure applies the configuration file, if there is one.
func (o *options) configure(flags *pflag.FlagSet) error {
	if o.configFile == "" {
		return nil
	}

	config, err := readConfiguration(o.configFile)
	if err == nil {
		err = config.apply(flags)
	}

	if err != nil {
		return fmt.Errorf("--%s: %w", flagConfigFile, err)
	}

	if qps := config.ClientConnection.QPS; qps != nil {
		o.qps = *qps
	}

	if burst := config.ClientConnection.Burst; burst != nil {
		o.burst = *burst
	}

	return nil
}
