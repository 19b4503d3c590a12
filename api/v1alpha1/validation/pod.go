package validation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// maxCredentialName is what KubeVirt leaves of a DNS label: it appends "-access-cred" and makes that a volume's name in the pod
// (pkg/virt-controller/services/rendervolumes.go).
const maxCredentialName = 51

// MaxTerminationGracePeriod is how long a guest may take to shut down. A deletion waits for it; one that goes on after the wait is a
// failed Machine to machine-controller-manager, and would be that for each guest that needs its time.
const MaxTerminationGracePeriod = 4 * time.Minute

// pod judges what else of the template goes to the machine's pod unseen: its end, probes, and names of Secrets.
func pod(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	errs := gracePeriod(vmi.TerminationGracePeriodSeconds, path.Child("terminationGracePeriodSeconds"))
	errs = append(errs, probe(vmi.ReadinessProbe, path.Child("readinessProbe"))...)
	errs = append(errs, probe(vmi.LivenessProbe, path.Child("livenessProbe"))...)

	if p := vmi.LivenessProbe; p != nil && p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(path.Child("livenessProbe", "successThreshold"), p.SuccessThreshold, "must be 1, or left out"))
	}

	if vmi.Subdomain != "" {
		errs = append(errs, dnsLabel(vmi.Subdomain, path.Child("subdomain"))...)
	}

	for i, claim := range vmi.ResourceClaims {
		errs = append(errs, dnsLabel(claim.Name, path.Child("resourceClaims").Index(i).Child("name"))...)
	}

	return append(errs, credentials(vmi.AccessCredentials, path.Child("accessCredentials"))...)
}

func gracePeriod(seconds *int64, path *field.Path) field.ErrorList {
	const longest = int64(MaxTerminationGracePeriod / time.Second)

	if seconds == nil || (*seconds >= 0 && *seconds <= longest) {
		return nil
	}

	return field.ErrorList{field.Invalid(path, *seconds, fmt.Sprintf(
		"must be 0 to %d: the deletion of a machine whose guest takes longer is reported as a failure", longest))}
}

func dnsLabel(name string, path *field.Path) field.ErrorList {
	if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
		return field.ErrorList{field.Invalid(path, name, msgs[0])}
	}

	return nil
}

func credentials(list []kubevirtv1.AccessCredential, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	seen := map[string]bool{}

	for i, credential := range list {
		name, kind := "", ""
		if c := credential.SSHPublicKey; c != nil && c.Source.Secret != nil {
			name, kind = c.Source.Secret.SecretName, "sshPublicKey"
		} else if c := credential.UserPassword; c != nil && c.Source.Secret != nil {
			name, kind = c.Source.Secret.SecretName, "userPassword"
		}

		if kind != "" {
			errs = append(errs, credentialName(name, seen[name], path.Index(i).Child(kind, "source", "secret", "secretName"))...)
			seen[name] = true
		}
	}

	return errs
}

func credentialName(name string, used bool, path *field.Path) field.ErrorList {
	if used {
		return field.ErrorList{field.Forbidden(path, "another of the accessCredentials has this Secret, of which KubeVirt makes a volume; use a Secret for each")}
	}

	if len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxCredentialName {
		return field.ErrorList{field.Invalid(path, name,
			"must be the name of a Secret without dots and of at most 51 characters: KubeVirt appends to it")}
	}

	return nil
}

// probe follows the rules for containers. Whether there is one kind of probe, KubeVirt judges itself.
func probe(p *kubevirtv1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}

	var errs field.ErrorList

	if p.TCPSocket != nil {
		errs = append(errs, port(p.TCPSocket.Port, path.Child("tcpSocket", "port"))...)
	}

	if p.HTTPGet != nil {
		errs = append(errs, port(p.HTTPGet.Port, path.Child("httpGet", "port"))...)

		for i, header := range p.HTTPGet.HTTPHeaders {
			if msgs := validation.IsHTTPHeaderName(header.Name); len(msgs) > 0 {
				errs = append(errs, field.Invalid(path.Child("httpGet", "httpHeaders").Index(i).Child("name"), header.Name, msgs[0]))
			}
		}
	}

	if p.Exec != nil && len(p.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), "name the command to run in the guest"))
	}

	return errs
}

// port allows no names: the pod's container names no ports.
func port(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.String {
		return field.ErrorList{field.Invalid(path, p.StrVal, "must be a number")}
	}

	if msgs := validation.IsValidPortNum(int(p.IntVal)); len(msgs) > 0 {
		return field.ErrorList{field.Invalid(path, p.IntVal, msgs[0])}
	}

	return nil
}
