// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// checkClonePermissions reviews, for each disk that is cloned from another namespace, the permission
// that KubeVirt reviews when it creates the disk: whether a service account of the machine's
// namespace may clone it.
func checkClonePermissions(ctx context.Context, r *reader, c *class) []Result {
	var results []Result

	for _, d := range c.disks() {
		if d.isCloned() && d.image == nil {
			results = append(results, checkClone(ctx, r, c, &d)...)
		}
	}

	return results
}

func checkClone(ctx context.Context, r *reader, c *class, d *disk) []Result {
	from := sourcesOf(d.path, d.spec, c.namespace)[0]
	account := cloningAccount(c.instance())

	s := r.about(fmt.Sprintf("ServiceAccount %s/%s, cloning %s", c.namespace, account, from.subject()))
	volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}, Spec: *d.spec}
	response, err := volume.AuthorizeSA(c.namespace, "", &authorizer{reader: r, ctx: ctx}, c.namespace, account)

	switch {
	case providerapi.Absent(err):
		return nil // The check of sources reports the missing source.
	case err != nil:
		return s.notChecked(err, fmt.Sprintf("kubectl auth can-i create datavolumes.cdi.kubevirt.io --subresource=source --namespace=%s --as=%s%s:%s",
			quoted(from.namespace), serviceAccounts, c.namespace, account))
	case !response.Allowed:
		return s.fail("is not allowed", fmt.Sprintf(
			"kubectl --namespace %[1]s create role clone-images --verb=create --resource=datavolumes.cdi.kubevirt.io/source && "+
				"kubectl --namespace %[1]s create rolebinding clone-images-%[2]s --role=clone-images --serviceaccount=%[2]s:%[3]s",
			quoted(response.Handler.SourceNamespace), c.namespace, account))
	default:
		return s.ok("is allowed")
	}
}

// cloningAccount returns the service account whose permission counts (authorizeDataVolume in
// pkg/virt-controller/watch/vm): the machine's own, which KubeVirt knows since 1.9, that of a volume,
// or "default".
func cloningAccount(instance *kubevirtv1.VirtualMachineInstanceSpec) string {
	account := "default"

	for i := range instance.Volumes {
		if volume := instance.Volumes[i].ServiceAccount; volume != nil {
			account = volume.ServiceAccountName
		}
	}

	return cmp.Or(instance.ServiceAccountName, account)
}

// authorizer sends the reviews for CDI's code.
type authorizer struct {
	*reader

	ctx context.Context //nolint:containedctx // CDI's interface has none.
}

var _ cdiv1beta1.AuthorizationHelperProxy = (*authorizer)(nil)

// CreateSar implements cdiv1beta1.AuthorizationHelperProxy.
func (a *authorizer) CreateSar(question *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return a.reviewAccess(a.ctx, question)
}

// GetNamespace implements cdiv1beta1.AuthorizationHelperProxy.
// The check of sources shows whether the namespace exists.
func (a *authorizer) GetNamespace(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// GetDataSource implements cdiv1beta1.AuthorizationHelperProxy.
func (a *authorizer) GetDataSource(namespace, name string) (*cdiv1beta1.DataSource, error) {
	found, err := a.object(a.ctx, &reference{kind: kindSource, namespace: namespace, name: name})
	source, _ := found.(*cdiv1beta1.DataSource)

	return source, err
}
