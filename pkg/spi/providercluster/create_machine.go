package providercluster

import (
	"context"
	"maps"
	"reflect"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// CreateMachine implements spi.PluginSPI. It creates the golden image first, without waiting for
// the import, and the Secrets before the VirtualMachine, which could not boot without them. Names
// are deterministic, so that an interrupted call can be repeated.
func (p *Provider) CreateMachine(ctx context.Context, in *spi.CreateMachineInput) (*spi.Machine, error) {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	vm, err := render.VirtualMachine(in, s.clients.Namespace)
	if err != nil {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	release, err := p.holdImage(ctx, s, in)
	if err != nil {
		return nil, err
	}
	defer release()

	for _, secret := range render.Secrets(in, s.clients.Namespace) {
		if err := s.ensureSecret(ctx, secret, in.Identity()); err != nil {
			return nil, err
		}
	}

	uid, err := s.ensureVirtualMachine(ctx, vm, in.Identity())
	if err != nil {
		return nil, inUsersTerms(err, in, vm)
	}

	if in.Spec.UsesGoldenImage() {
		p.options.Images.Cloned()
	}

	in.Report.Tell(spi.Progress{Reason: "VirtualMachineCreated", Message: "VirtualMachine " + s.path(vm.Name) + " exists"})

	machine := newMachine(in.Name)
	machine.Address = s.addressOf(in.Identity(), uid)

	return machine, nil
}

func (s *session) ensureSecret(ctx context.Context, want *corev1.Secret, id spi.Identity) error {
	ctx = withoutBodies(ctx)

	err := s.request(ctx, "create Secret "+s.path(want.Name), func(ctx context.Context) error {
		_, err := s.secrets().Create(ctx, want, strictly(s.dryRun...))

		return err
	})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	// The driver itself may cause a conflict: an update is sent again if its response was lost.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return s.refreshSecret(ctx, want, id)
	})
	if providerapi.Absent(err) {
		return spi.Errorf(spi.ErrConflict, "Secret %s has just been deleted", s.path(want.Name))
	}

	return err
}

func (s *session) refreshSecret(ctx context.Context, want *corev1.Secret, id spi.Identity) error {
	var have *corev1.Secret

	err := s.request(ctx, "get Secret "+s.path(want.Name), func(ctx context.Context) error {
		var err error
		have, err = s.secrets().Get(ctx, want.Name, metav1.GetOptions{})

		return err
	})
	if err != nil {
		return err
	}

	return s.adoptSecret(ctx, have, want, id)
}

// adoptSecret updates an existing Secret of this machine with the current user data, since the
// bootstrap token may have been replaced.
func (s *session) adoptSecret(ctx context.Context, have, want *corev1.Secret, id spi.Identity) error {
	switch {
	case !render.Owns(id, have.Labels):
		return foreign("Secret", s.path(want.Name))
	case have.DeletionTimestamp != nil:
		return spi.Errorf(spi.ErrConflict, "Secret %s is being deleted", s.path(want.Name))
	case reflect.DeepEqual(have.Data, want.Data) && maps.Equal(have.Labels, want.Labels):
		return nil
	}

	have.Labels, have.Data = want.Labels, want.Data

	return s.request(ctx, "update Secret "+s.path(want.Name), func(ctx context.Context) error {
		_, err := s.secrets().Update(ctx, have, metav1.UpdateOptions{DryRun: s.dryRun})

		return err
	})
}

// ensureVirtualMachine returns the UID of the machine's VirtualMachine.
func (s *session) ensureVirtualMachine(ctx context.Context, want *kubevirtv1.VirtualMachine, id spi.Identity) (types.UID, error) {
	var created *kubevirtv1.VirtualMachine

	err := s.request(ctx, "create VirtualMachine "+s.path(want.Name), func(ctx context.Context) error {
		var err error
		created, err = s.virtualMachines().Create(ctx, want, strictly(s.dryRun...))

		return err
	})

	switch {
	case err == nil:
		return created.UID, nil
	case !apierrors.IsAlreadyExists(err):
		return "", err
	}

	have, err := s.getVirtualMachine(ctx, want.Name)

	switch {
	case err != nil:
		return "", err
	case have == nil:
		return "", spi.Errorf(spi.ErrConflict, "VirtualMachine %s has just been deleted", s.path(want.Name))
	case !render.Owns(id, have.Labels):
		return "", foreign("VirtualMachine", s.path(want.Name))
	case have.DeletionTimestamp != nil:
		return "", spi.Errorf(spi.ErrConflict, "VirtualMachine %s is being deleted", s.path(want.Name))
	}

	return have.UID, nil
}

// strictly returns options with which a provider cluster refuses fields that its KubeVirt does not
// know, instead of dropping them.
func strictly(dryRun ...string) metav1.CreateOptions {
	return metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun}
}

// withoutBodies prevents client-go from logging the bodies of requests and responses, which it does
// at -v=8, including those of Secrets.
func withoutBodies(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.Discard())
}

// foreign returns the error for an object that has the name of one of the machine's, and the tags
// of another shoot or none.
func foreign(kind, path string) error {
	return spi.WithRemedy(spi.Errorf(spi.ErrForeign, "%s %s lacks the tags of this shoot", kind, path), "rename or remove it")
}
