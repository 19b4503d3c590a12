// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const gardenerAPIServer = "gardener-apiserver"

// gardenGroups are the API groups of gardener-apiserver.
var gardenGroups = []schema.GroupVersion{
	gardencorev1.SchemeGroupVersion, gardencorev1beta1.SchemeGroupVersion, securityv1alpha1.SchemeGroupVersion,
	seedmanagementv1alpha1.SchemeGroupVersion, operationsv1alpha1.SchemeGroupVersion,
}

// startGarden starts gardener-apiserver. The API server of the virtual garden cluster aggregates it.
func (s *Seed) startGarden(ctx context.Context) error {
	folder := filepath.Join(s.Folder, gardenerAPIServer)

	ca, err := writeServingCertificate(folder, gardenerAPIServer, gardenerAPIServer+"."+v1beta1constants.GardenNamespace+".svc")
	if err != nil {
		return err
	}

	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}

	signing, err := s.createSigningKey(folder)
	if err != nil {
		return err
	}

	// An orderly shutdown waits a minute for the watches of the API server that aggregates it.
	server, err := s.group.Start(process.Spec{
		Name: gardenerAPIServer,
		Path: s.state.GardenerAPIServer,
		Kill: true,
		Args: []string{
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", ports[0]),
			"--tls-cert-file=" + filepath.Join(folder, "tls.crt"),
			"--tls-private-key-file=" + filepath.Join(folder, "tls.key"),
			"--etcd-servers=" + s.state.ControlEtcd,
			"--cluster-identity=lab",
			"--authentication-kubeconfig=" + s.gardenKubeconfig,
			"--authorization-kubeconfig=" + s.gardenKubeconfig,
			"--kubeconfig=" + s.gardenKubeconfig,
			"--workload-identity-token-issuer=" + workloadIdentityIssuer,
			"--workload-identity-signing-key-file=" + signing,
			"--workload-identity-token-min-expiration=" + workloadIdentityLifetime.String(),
		},
	})
	if err != nil {
		return err
	}

	if err := s.aggregate(ctx, ports[0], ca); err != nil {
		return err
	}

	return wrap(s.awaitGarden(ctx, server), "start "+gardenerAPIServer)
}

// aggregate registers gardener-apiserver at the API server of the virtual garden cluster.
func (s *Seed) aggregate(ctx context.Context, port int, ca []byte) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta1constants.GardenNamespace, Name: gardenerAPIServer},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}

	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: service.Namespace}}, service}
	for _, group := range gardenGroups {
		objects = append(objects, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: group.Version + "." + group.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Service: &apiregistrationv1.ServiceReference{
					Namespace: service.Namespace,
					Name:      service.Name,
					Port:      ptr.To(int32(port)),
				},
				Group:                group.Group,
				Version:              group.Version,
				GroupPriorityMinimum: 1000,
				VersionPriority:      10,
				CABundle:             ca,
			},
		})
	}

	scheme := runtime.NewScheme()
	utilruntime.Must(errors.Join(corev1.AddToScheme(scheme), apiregistrationv1.AddToScheme(scheme)))

	server, err := client.New(s.gardenConfig, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}

	for _, object := range objects {
		if err := server.Create(ctx, object); err != nil {
			return fmt.Errorf("register %s: %w", gardenerAPIServer, err)
		}
	}

	return nil
}

// awaitGarden waits until the kinds of gardener-apiserver are served.
func (s *Seed) awaitGarden(ctx context.Context, server *process.Process) error {
	const every, atMost = 200 * time.Millisecond, time.Minute

	var last error

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		if err := server.Err(); err != nil {
			return false, err
		}

		// A new client discovers the kinds again.
		garden, err := client.New(s.gardenConfig, client.Options{Scheme: kubernetes.GardenScheme})
		if err != nil {
			last = err

			return false, nil //nolint:nilerr // not yet
		}

		s.Garden = garden
		last = errors.Join(garden.List(ctx, &gardencorev1beta1.ShootList{}), garden.List(ctx, &securityv1alpha1.CredentialsBindingList{}))

		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}

	return nil
}

// registerExtensions registers this extension and others that the Shoots of the tests need in the garden.
// gardener-apiserver refuses Shoots with types for which nothing is registered.
func (s *Seed) registerExtensions(ctx context.Context) error {
	own, err := readExample("controller-registration.yaml")
	if err != nil {
		return err
	}

	return errors.Join(s.apply(ctx, s.gardenKubeconfig, "registration", string(own)), s.registerOtherExtensions(ctx))
}

// registerOtherExtensions registers the extensions that the Shoots of the tests need besides this one.
func (s *Seed) registerOtherExtensions(ctx context.Context) error {
	others, err := manifests.ReadFile("manifests/registrations.yaml")
	if err != nil {
		return err
	}

	return s.apply(ctx, s.gardenKubeconfig, "registrations", string(others))
}

// Apply applies a manifest to the garden as a user does, with kubectl. Its error is what the user sees.
func (s *Seed) Apply(ctx context.Context, manifest []byte) error {
	command := exec.CommandContext(ctx, s.state.Kubectl, "apply", "--kubeconfig="+s.gardenKubeconfig, "--filename=-")

	var output bytes.Buffer

	command.Stdin = bytes.NewReader(manifest)
	command.Stderr = &output

	if err := command.Run(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, strings.TrimSpace(output.String()))
	}

	return nil
}

// ApplyLandscape applies the manifests of the documentation that Shoots refer to: the project, the
// CloudProfile, and the credentials of an account with their binding. Then it labels the Secret.
func (s *Seed) ApplyLandscape(ctx context.Context, account Account) error {
	kubeconfig, err := s.Credentials(ctx, account)
	if err != nil {
		return err
	}

	for _, name := range []string{ExampleProject, ExampleCloudProfile, ExampleSecret, ExampleCredentialsBinding} {
		manifest, err := s.Manifest(name)
		if err != nil {
			return err
		}

		if name == ExampleSecret {
			if manifest, err = withKubeconfig(manifest, kubeconfig); err != nil {
				return err
			}
		}

		if err := s.Apply(ctx, manifest); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	binding := &securityv1alpha1.CredentialsBinding{}
	if err := s.Read(ExampleCredentialsBinding, binding); err != nil {
		return err
	}

	return s.labelCredentials(ctx, client.ObjectKey{Namespace: binding.CredentialsRef.Namespace, Name: binding.CredentialsRef.Name}, binding.Provider.Type)
}

// labelCredentials adds the label to the Secret of a binding by which the API server calls the webhook, as
// gardener-controller-manager does after the binding has been created.
func (s *Seed) labelCredentials(ctx context.Context, key client.ObjectKey, providerType string) error {
	secret := &corev1.Secret{}
	if err := s.Garden.Get(ctx, key, secret); err != nil {
		return err
	}

	before := secret.DeepCopy()
	metav1.SetMetaDataLabel(&secret.ObjectMeta, v1beta1constants.LabelShootProviderPrefix+providerType, "true")

	return wrap(s.Garden.Patch(ctx, secret, client.MergeFrom(before)), "label Secret "+key.String())
}

// withKubeconfig replaces the kubeconfig in the manifest of a Secret.
func withKubeconfig(manifest, kubeconfig []byte) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := yaml.UnmarshalStrict(manifest, secret); err != nil {
		return nil, err
	}

	secret.StringData[providerspec.SecretKeyKubeconfig] = string(kubeconfig)

	return yaml.Marshal(secret)
}
