package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func cloudInit(c *v1alpha1.CloudInit, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}

	switch c.Type {
	case "", v1alpha1.CloudInitNoCloud, v1alpha1.CloudInitConfigDrive:
		return nil
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), c.Type,
			[]v1alpha1.CloudInitType{v1alpha1.CloudInitNoCloud, v1alpha1.CloudInitConfigDrive})}
	}
}

// sshKeys checks what makes a key be ignored in silence. Which kinds of keys there are is the guest's to know.
func sshKeys(keys []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, key := range keys {
		if key = strings.TrimSpace(key); len(strings.Fields(key)) < 2 || strings.ContainsAny(key, "\r\n") || strings.Contains(key, "-----BEGIN") {
			errs = append(errs, field.Invalid(path.Index(i), field.OmitValueType{},
				`must be one line of an authorized_keys file, for example "ssh-ed25519 AAAA… someone"`))
		}
	}

	return errs
}
