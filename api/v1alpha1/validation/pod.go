// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// maxCredentialName is the maximum length of the name of a Secret with credentials: KubeVirt
// appends "-access-cred" and uses the result as the name of a volume in the pod, which must be a
// DNS label (pkg/virt-controller/services/rendervolumes.go).
const maxCredentialName = 51

// MaxTerminationGracePeriod is the longest time that a guest may take to shut down. A deletion
// waits for the shutdown. If it did not wait long enough, machine-controller-manager would report a
// failed Machine although the guest is still shutting down.
const MaxTerminationGracePeriod = 4 * time.Minute

// validatePod validates settings of the template that KubeVirt copies to the machine's pod without
// validation, except those for the scheduler.
func validatePod(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	const longest = int64(MaxTerminationGracePeriod / time.Second)

	seconds := ptr.Deref(vmi.TerminationGracePeriodSeconds, 0)
	errs := slices.Concat(
		refuse(path.Child("terminationGracePeriodSeconds"), seconds < 0 || seconds > longest, seconds,
			fmt.Sprintf("must be 0 to %d; if a shutdown takes longer, the deletion of the machine is reported as a failure", longest)),
		validateProbe(vmi.ReadinessProbe, path.Child("readinessProbe")),
		validateProbe(vmi.LivenessProbe, path.Child("livenessProbe")),
		validateAccessCredentials(vmi.AccessCredentials, path.Child("accessCredentials")),
	)

	if p := vmi.LivenessProbe; p != nil {
		errs = append(errs, refuse(path.Child("livenessProbe", "successThreshold"), p.SuccessThreshold > 1, p.SuccessThreshold, "must be 1 or unset")...)
	}

	if vmi.Subdomain != "" {
		errs = append(errs, validateSyntax(path.Child("subdomain"), vmi.Subdomain, validation.IsDNS1123Label)...)
	}

	for i, claim := range vmi.ResourceClaims {
		errs = append(errs, validateSyntax(path.Child("resourceClaims").Index(i).Child("name"), claim.Name, validation.IsDNS1123Label)...)
	}

	return errs
}

// validateAccessCredentials validates the names of Secrets, of which KubeVirt makes the names of volumes.
func validateAccessCredentials(list []kubevirtv1.AccessCredential, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	used := map[string]bool{}

	for i, credential := range list {
		var name, kind string
		if c := credential.SSHPublicKey; c != nil && c.Source.Secret != nil {
			name = c.Source.Secret.SecretName
			kind = "sshPublicKey"
		} else if c := credential.UserPassword; c != nil && c.Source.Secret != nil {
			name = c.Source.Secret.SecretName
			kind = "userPassword"
		} else {
			continue
		}

		at := path.Index(i).Child(kind, "source", "secret", "secretName")
		if used[name] {
			errs = append(errs, field.Forbidden(at, "another one of the accessCredentials uses this Secret; use a Secret for each"))
		} else {
			errs = append(errs, refuse(at, len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxCredentialName, name, fmt.Sprintf(
				"must be the name of a Secret without dots, of at most %d characters, since KubeVirt appends a suffix", maxCredentialName))...)
		}

		used[name] = true
	}

	return errs
}

// validateProbe applies the rules for containers. KubeVirt checks itself that there is one kind of probe.
func validateProbe(p *kubevirtv1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}

	var errs field.ErrorList

	if p.TCPSocket != nil {
		errs = append(errs, validatePort(p.TCPSocket.Port, path.Child("tcpSocket", "port"))...)
	}

	if p.HTTPGet != nil {
		errs = append(errs, validatePort(p.HTTPGet.Port, path.Child("httpGet", "port"))...)

		for i, header := range p.HTTPGet.HTTPHeaders {
			errs = append(errs, validateSyntax(path.Child("httpGet", "httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName)...)
		}
	}

	if p.Exec != nil && len(p.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), "set the command to run in the guest"))
	}

	return errs
}

// validatePort refuses names, since the containers of the pod have no named ports.
func validatePort(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.String {
		return field.ErrorList{field.Invalid(path, p.StrVal, "must be a number")}
	}

	return validateSyntax(path, p.IntValue(), validation.IsValidPortNum)
}
