package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	// transient is the time for which a failure of a DataVolume counts as progressing: CDI retries
	// imports and clones, often successfully.
	transient = time.Minute
	// maxReported bounds the DataVolumes that a condition names.
	maxReported = 3
)

// dataVolumesCheck checks that CDI can create the disks of the machines and the golden images.
type dataVolumesCheck struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*dataVolumesCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck. A provider cluster that cannot be read is reported by
// providerClusterCheck; it says nothing about the nodes.
func (c *dataVolumesCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()

	w := &extensionsv1alpha1.Worker{}
	if err := c.seed.Get(ctx, request, w); err != nil {
		return nil, fmt.Errorf("get Worker %s: %w", request, err)
	}

	shoot, err := c.shoot(ctx, request.Namespace)
	if err != nil {
		return nil, err
	}

	provider, err := c.newProviderCluster(ctx, c.seed, w.Spec.SecretRef)
	if err != nil {
		return healthy(), nil // see above
	}

	defer provider.Close()

	return resultOf(read(ctx, provider, shoot.Status.TechnicalID).failing(), provider.Namespace), nil
}

// shoot returns the Shoot from a Cluster.
func (c *dataVolumesCheck) shoot(ctx context.Context, name string) (*gardencorev1beta1.Shoot, error) {
	cluster := &extensionsv1alpha1.Cluster{}
	if err := c.seed.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", name, err)
	}

	shoot, err := extensions.ShootFromCluster(cluster)
	if err == nil && shoot == nil {
		err = errors.New("it has no Shoot")
	}

	if err != nil {
		return nil, fmt.Errorf("read Cluster %s: %w", name, err)
	}

	return shoot, nil
}

// read returns the incomplete DataVolumes of a shoot. After an error, it returns those before it.
func read(ctx context.Context, provider *providercluster.Cluster, technicalID string) volumes {
	found, _ := providercluster.Collect(ctx, provider, &cdiv1beta1.DataVolumeList{}, func(dv *cdiv1beta1.DataVolume) (volume, bool) {
		return newVolume(dv), isIncomplete(dv, technicalID)
	}, client.InNamespace(provider.Namespace), client.MatchingLabels{providerspec.TagCluster: technicalID})

	return found
}

// resultOf returns the result for the failing DataVolumes of a namespace.
func resultOf(failing []string, namespace string) *healthcheck.SingleCheckResult {
	if len(failing) == 0 {
		return healthy()
	}

	reported := strings.Join(failing[:min(len(failing), maxReported)], "; ")
	if more := len(failing) - maxReported; more > 0 {
		reported += fmt.Sprintf("; and %d more", more)
	}

	result := unhealthy(errors.New("DataVolumes in namespace " + namespace + " of the provider cluster fail: " + reported +
		"; correct the image, the storage class or the quota, see kubectl describe datavolumes"))
	result.Status, result.ProgressingThreshold = gardencorev1beta1.ConditionProgressing, ptr.To(transient)

	return result
}
