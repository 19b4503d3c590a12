// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// validateShootArguments refuses what cannot be combined with --shoot.
func (o *options) validateShootArguments(names []string) error {
	switch {
	case len(names) > 0 || o.all || o.clusters.AllNamespaces || o.cluster != "":
		return errors.New("--shoot diagnoses all Machines of the Shoot; remove the names of Machines, --all, --all-namespaces (-A) and --cluster")
	case *o.clusters.Namespace != "":
		return errors.New("--shoot names the namespace; remove --namespace (-n)")
	default:
		return o.validateShoot()
	}
}

// validateShoot refuses values of --shoot that are neither a technical ID nor a namespace and a name.
func (o *options) validateShoot() error {
	namespace, name, inGarden := strings.Cut(o.shoot, "/")

	switch {
	case inGarden && (namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--shoot=%s: write NAMESPACE/NAME of the Shoot in the garden, or its technical ID in the seed", o.shoot)
	case !inGarden && o.seedKubeconfig != "":
		return errors.New("--shoot is a technical ID: set --kubeconfig to the kubeconfig of the seed, and remove --seed-kubeconfig")
	default:
		return nil
	}
}

// runShoot diagnoses a Shoot.
func (o *options) runShoot(ctx context.Context) error {
	seed := o.clusters
	clusters := diagnosis.ShootClusters{}

	if namespace, _, inGarden := strings.Cut(o.shoot, "/"); inGarden {
		*o.clusters.Namespace = namespace

		garden, err := o.clusters.Control()
		if err != nil {
			return err
		}

		clusters.Garden = garden
		seed = o.clusters.With(o.seedKubeconfig)
	}

	if clusters.Garden == nil || o.seedKubeconfig != "" {
		clusters.Seed = func(technicalID string) (*diagnosis.Diagnoser, error) {
			*seed.Namespace = technicalID

			return o.diagnoser(seed)
		}
	}

	d, err := diagnosis.DiagnoseShoot(ctx, o.shoot, clusters)
	if err != nil {
		return err
	}

	if err := o.output.Print(o.Out, d, page(shootTemplate, o.settings(), time.Now())); err != nil {
		return err
	}

	return shootOutcome(d)
}

// shootOutcome returns the error that determines the exit code.
func shootOutcome(d *diagnosis.Shoot) error {
	switch d.Result {
	case diagnosis.ResultCauseFound:
		return output.InvalidError(d.Shoot + ": a cause was found")
	case diagnosis.ResultUnknown:
		return fmt.Errorf("%s could not be diagnosed completely", d.Shoot)
	default:
		return nil
	}
}
