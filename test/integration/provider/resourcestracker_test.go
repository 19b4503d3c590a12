// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// suiteRole is the role tag of the suite's machines. It separates them from those of a
// machine-controller-manager of the same shoot.
const suiteRole = "integration-test"

// resourcesTracker tells the suite whether objects of its machines are left. It implements
// helpers.ResourcesTrackerInterface.
type resourcesTracker struct {
	client    metadata.Interface
	namespace string
	selector  string
}

// InitializeResourcesTracker takes the namespace from the credentials, as the driver does,
// and the tags from the MachineClass. It uses an administrator's identity, because the
// driver's may not list all kinds.
func (r *resourcesTracker) InitializeResourcesTracker(class *v1alpha1.MachineClass, secret map[string][]byte, _ string) error {
	var spec providerspec.ProviderSpec
	if err := json.Unmarshal(class.ProviderSpec.Raw, &spec); err != nil {
		return fmt.Errorf("read ProviderSpec of MachineClass %s: %w", class.Name, err)
	}

	if role := spec.Tags[providerspec.TagRole]; role != suiteRole {
		return fmt.Errorf("MachineClass %s has role tag %q, not %q", class.Name, role, suiteRole)
	}

	r.selector = labels.Set{
		providerspec.TagCluster: spec.Tags[providerspec.TagCluster], providerspec.TagRole: suiteRole,
	}.String()

	credentials, err := clientcmd.NewClientConfigFromBytes(secret["kubeconfig"])
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}

	if r.namespace, _, err = credentials.Namespace(); err != nil {
		return fmt.Errorf("read namespace of kubeconfig: %w", err)
	}

	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(providerKubeconfig))
	if err != nil {
		return fmt.Errorf("read administrator's kubeconfig: %w", err)
	}

	if r.client, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}

	if r.IsOrphanedResourcesAvailable() {
		return fmt.Errorf("namespace %s holds objects of an earlier run", r.namespace)
	}

	return nil
}

// IsOrphanedResourcesAvailable reports whether any object of the suite's machines exists, and logs
// these objects. An error counts as existing objects.
func (r *resourcesTracker) IsOrphanedResourcesAvailable() bool {
	ctx := context.Background() //nolint:forbidigo // the interface has none

	orphans, err := list(ctx, r.client, r.namespace, r.selector)
	if err != nil {
		log.Printf("look for orphans: %v", err)

		return true
	}

	for i := range orphans {
		log.Printf("orphan: %s %s", orphans[i].Kind, orphans[i].Name)
	}

	return len(orphans) > 0
}
