// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/controller/tokenrequestor"
	requiredinstallations "github.com/gardener/gardener/pkg/controllermanager/controller/controllerregistration/controllerinstallation"
	"github.com/gardener/gardener/pkg/gardenlet/controller/controllerinstallation/care"
	"github.com/gardener/gardener/pkg/gardenlet/controller/controllerinstallation/controllerinstallation"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/oci"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// installations installs extensions with the controllers of gardener-controller-manager and gardenlet.
type installations struct {
	seed *seed.Seed

	required  reconcile.Reconciler // creates and deletes ControllerInstallations
	installed reconcile.Reconciler // renders and applies the charts
	checked   reconcile.Reconciler // writes the conditions
	tokens    reconcile.Reconciler // issues tokens for the garden cluster

	// done has what was installed, by the names of the ControllerInstallations.
	done map[string]string
}

func newInstallations(s *seed.Seed) (*installations, error) {
	kubeconfigs := s.Kubeconfigs()

	gardenConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfigs.Garden)
	if err != nil {
		return nil, err
	}

	seedConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfigs.Seed)
	if err != nil {
		return nil, err
	}

	clientSet, err := kubernetes.NewWithConfig(
		kubernetes.WithRESTConfig(seedConfig), kubernetes.WithClientOptions(client.Options{Scheme: kubernetes.SeedScheme}), kubernetes.WithDisabledCachedClient(),
	)
	if err != nil {
		return nil, err
	}

	return &installations{
		seed: s,
		done: map[string]string{},
		required: &requiredinstallations.Reconciler{
			APIReader:           s.Garden,
			Client:              s.Garden,
			Kind:                requiredinstallations.SeedKind,
			NewTargetObjectFunc: func() client.Object { return &gardencorev1beta1.Seed{} },
		},
		installed: &controllerinstallation.Reconciler{
			GardenClient:          s.Garden,
			GardenConfig:          gardenConfig,
			SeedClientSet:         clientSet,
			HelmRegistry:          oci.NewHelmRegistry(s.Garden),
			Clock:                 clock.RealClock{},
			Identity:              identity(),
			GardenClusterIdentity: "garden",
			GardenNamespace:       v1beta1constants.GardenNamespace,
		},
		checked: &care.Reconciler{
			GardenClient:             s.Garden,
			SeedClient:               s.Client,
			Clock:                    clock.RealClock{},
			ManagedResourceNamespace: v1beta1constants.GardenNamespace,
			Config:                   gardenletconfigv1alpha1.ControllerInstallationCareControllerConfiguration{SyncPeriod: &metav1.Duration{Duration: time.Minute}},
		},
		tokens: &tokenrequestor.Reconciler{
			SourceClient:    s.Client,
			TargetClient:    s.Garden,
			Clock:           clock.RealClock{},
			JitterFunc:      wait.Jitter,
			Class:           ptr.To(resourcesv1alpha1.ResourceManagerClassGarden),
			TargetNamespace: gardenerutils.ComputeGardenNamespace(seedName),
		},
	}, nil
}

func request(key client.ObjectKey) reconcile.Request { return reconcile.Request{NamespacedName: key} }

// require creates the ControllerInstallations that the Seed and its Shoots need, and deletes the others.
func (i *installations) require(ctx context.Context) error {
	_, err := i.required.Reconcile(ctx, request(client.ObjectKey{Name: seedName}))

	return err
}

// install installs the extensions of ControllerInstallations in the seed, and writes their conditions.
func (i *installations) install(ctx context.Context, report func(format string, args ...any)) error {
	list := &gardencorev1beta1.ControllerInstallationList{}
	if err := i.seed.Garden.List(ctx, list); err != nil {
		return fmt.Errorf("list ControllerInstallations: %w", err)
	}

	var failed error

	for n := range list.Items {
		installation := &list.Items[n]
		if installation.Spec.DeploymentRef == nil {
			continue // Extensions that the landscape simulates have no deployment.
		}

		if err := i.installOne(ctx, installation, report); err != nil {
			failed = errors.Join(failed, fmt.Errorf("ControllerInstallation %s: %w", installation.Name, err))
		}
	}

	return errors.Join(failed, i.issueTokens(ctx))
}

func (i *installations) installOne(ctx context.Context, installation *gardencorev1beta1.ControllerInstallation, report func(format string, args ...any)) error {
	key := client.ObjectKeyFromObject(installation)

	if version := versionOf(installation); i.done[installation.Name] != version || installation.DeletionTimestamp != nil {
		result, err := i.installed.Reconcile(ctx, request(key))
		if err != nil {
			return err
		}

		switch registration := installation.Spec.RegistrationRef.Name; {
		case installation.DeletionTimestamp == nil:
			i.done[installation.Name] = version
			report("applied the chart of ControllerRegistration %s to the seed", registration)
		case result.RequeueAfter == 0:
			delete(i.done, installation.Name)
			report("removed the chart of ControllerRegistration %s from the seed", registration)

			return nil
		default:
			return nil // The deletion continues.
		}
	}

	_, err := i.checked.Reconcile(ctx, request(key))

	return err
}

// versionOf identifies what is installed: gardener-controller-manager writes the hashes of the
// ControllerRegistration and the ControllerDeployment into the labels.
func versionOf(installation *gardencorev1beta1.ControllerInstallation) string {
	var version string

	for _, key := range slices.Sorted(maps.Keys(installation.Labels)) {
		version += key + "=" + installation.Labels[key] + "\n"
	}

	return version + installation.Annotations[v1beta1constants.AnnotationPodSecurityEnforce]
}

// issueTokens issues the tokens for the garden cluster that pods of the seed request.
func (i *installations) issueTokens(ctx context.Context) error {
	secrets := &corev1.SecretList{}
	if err := i.seed.Client.List(ctx, secrets, client.MatchingLabels{
		resourcesv1alpha1.ResourceManagerPurpose: resourcesv1alpha1.LabelPurposeTokenRequest,
		resourcesv1alpha1.ResourceManagerClass:   resourcesv1alpha1.ResourceManagerClassGarden,
	}); err != nil {
		return fmt.Errorf("list Secrets with tokens for the garden: %w", err)
	}

	var failed error

	for n := range secrets.Items {
		key := client.ObjectKeyFromObject(&secrets.Items[n])
		if _, err := i.tokens.Reconcile(ctx, request(key)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("issue a token for the garden in Secret %s: %w", key, err))
		}
	}

	return failed
}
