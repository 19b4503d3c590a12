// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package reasons

func access() []Failure {
	return []Failure{
		{CredentialsRefused, InfraUnauthenticated, Remedy{
			Shoot:    "replace the kubeconfig in the Secret of its CredentialsBinding, and reconcile the Shoot",
			Provider: "if the credentials are a WorkloadIdentity, let the API server trust its issuer and one of its audiences",
		}},
		{"PermissionDenied", InfraUnauthorized, Remedy{
			Provider: "apply the folder of extension/kubernetes that has the account's permissions, or exempt the account from the policy that denies the object",
		}},
		{"CloneForbidden", InfraUnauthorized, Remedy{
			Provider: "in the namespace of the source, grant create on datavolumes/source to the service account in the message",
		}},
		{"AddressChanged", RetryableConfigurationProblem, Remedy{
			Shoot: "restore the server and the namespace of the kubeconfig in the Secret of its CredentialsBinding",
			Seed:  "if the machine no longer exists, annotate its Machine with kubevirt.machine.gardener.cloud/address=abandoned",
		}},
		{"PreconditionFailed", RetryableInfraDependencies, Remedy{Provider: "provide the prerequisite that the message names"}},
	}
}

func capacity() []Failure {
	return []Failure{
		{"QuotaExceeded", InfraQuotaExceeded, Remedy{
			Shoot:    "reduce the machines or the volumes of the worker pools",
			Provider: "raise the ResourceQuota of the machines' namespace",
		}},
		{"StorageExhausted", InfraResourcesDepleted, Remedy{Shoot: "use another volume type", Provider: "add storage"}},
		{"Unschedulable", InfraResourcesDepleted, Remedy{
			Shoot:    "use another zone or a smaller machine type for the worker pool",
			Provider: "add or uncordon nodes in the zone of the worker pool",
		}},
		{"InsufficientDevices", InfraResourcesDepleted, Remedy{
			Shoot:    "use another zone or machine type for the worker pool",
			Provider: "add nodes with the device to the zone of the worker pool",
		}},
		{"VirtualizationMissing", InfraResourcesDepleted, Remedy{
			Provider: "check that virt-handler runs on the nodes, and that they have hardware virtualization, or add such nodes",
		}},
	}
}

// objects are failures to create a machine, and references to objects that do not exist.
func objects() []Failure {
	return []Failure{
		{"InvalidInput", RetryableConfigurationProblem, Remedy{
			Shoot:        "correct the worker pool",
			CloudProfile: "correct the machine type, the image or the volume type of the worker pool",
			Provider:     "enable the feature of KubeVirt that the message names",
		}},
		{"InstanceInvalid", RetryableConfigurationProblem, Remedy{
			Shoot:        "correct the worker pool",
			CloudProfile: "correct the machine type or the image of the worker pool",
			Provider:     "enable the feature of KubeVirt that the message names",
		}},
		{"ForeignObject", RetryableConfigurationProblem, Remedy{Provider: "rename or remove the object that the message names"}},
		{"InstancetypeNotFound", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the instancetype of the machine type",
			Provider:     "create the instancetype",
		}},
		{"PreferenceNotFound", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the preference of the machine type",
			Provider:     "create the preference",
		}},
		{"DataSourceNotFound", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the sourceRef of the image version",
			Provider:     "create the DataSource",
		}},
		{"PriorityClassNotFound", RetryableConfigurationProblem, Remedy{
			Shoot:    "correct priorityClassName in the virtualMachineTemplate of the worker pool",
			Provider: "create the PriorityClass",
		}},
		{"NetworkNotFound", RetryableConfigurationProblem, Remedy{
			Shoot:    "correct the networks of the InfrastructureConfig",
			Provider: "create the NetworkAttachmentDefinition",
		}},
		{"PodSecurityViolated", RetryableConfigurationProblem, Remedy{
			Provider: "label the namespace of the machines pod-security.kubernetes.io/enforce=privileged",
		}},
		{"LimitRangeViolated", RetryableConfigurationProblem, Remedy{
			Provider: "change the LimitRange of the machines' namespace, which sets or bounds the value in the message",
		}},
		{"PolicyViolated", RetryableConfigurationProblem, Remedy{Provider: "exempt the machines from the policy in the message"}},
		{"WebhookUnavailable", RetryableInfraDependencies, Remedy{Provider: "repair the webhook in the message, or the component behind it"}},
		{"CreationFailed", RetryableConfigurationProblem, Remedy{Provider: "check the VirtualMachine and its events"}},
		{"MachineClassNotFound", RetryableConfigurationProblem, Remedy{
			Shoot: "reconcile it: the extension then writes the MachineClass",
			Seed:  "check the Worker, and the log of the extension",
		}},
		{"ClassSecretNotFound", RetryableConfigurationProblem, Remedy{
			Shoot: "reconcile it: the extension then writes the Secret",
			Seed:  "check the Worker, and the log of the extension",
		}},
	}
}

func storage() []Failure {
	return []Failure{
		{"StorageClassNotFound", RetryableConfigurationProblem, Remedy{
			Shoot:        "use another volume type",
			CloudProfile: "correct the class of the volume type",
			Provider:     "create the storage class",
		}},
		{"ClaimInvalid", RetryableConfigurationProblem, Remedy{
			CloudProfile: "use another class for the volume type",
			Provider:     "set the access modes and the volume mode in the StorageProfile of the storage class",
		}},
		{"ClaimNotFound", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the source of the image version",
			Provider:     "create the PersistentVolumeClaim",
		}},
		{"ClaimInUse", RetryableConfigurationProblem, Remedy{Provider: "delete the pod that uses the claim"}},
		{"VolumeTooSmall", ConfigurationProblem, Remedy{Shoot: "set a larger volume size for the worker pool"}},
		{"VolumeZoneConflict", RetryableConfigurationProblem, Remedy{
			CloudProfile: "use a volume type whose storage class has the binding mode WaitForFirstConsumer, and an image that every zone can read",
			Provider:     "free capacity in the zone of the volume",
		}},
		{"CloneSourceNotFound", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the source of the image version",
			Provider:     "create the source",
		}},
		{"CloneSourceInUse", RetryableConfigurationProblem, Remedy{Provider: "delete the pod that uses the source"}},
		{"CloneZoneConflict", RetryableConfigurationProblem, Remedy{
			CloudProfile: "use an image that every zone can read",
			Provider:     "copy the image to storage that every zone can read",
		}},
		{"CloneRefused", RetryableConfigurationProblem, Remedy{
			CloudProfile: "use an image and a class of the volume type that have the same content type and volume mode",
		}},
		{"ProvisioningFailed", RetryableConfigurationProblem, Remedy{Provider: "check the storage driver"}},
		{"VolumeNotBound", RetryableConfigurationProblem, Remedy{Provider: "check the claims of the machine, and the storage driver"}},
		{"VolumeMountFailed", RetryableConfigurationProblem, Remedy{Provider: "check the storage driver on the node"}},
	}
}

func images() []Failure {
	return []Failure{
		{"ImageNotFound", RetryableConfigurationProblem, Remedy{CloudProfile: "correct the source of the image version, or upload the image"}},
		{"ImageUnauthorized", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the secretRef in the source of the image version",
			Provider:     "correct the Secret with the credentials of the image's source",
		}},
		{"ImageCertificateUntrusted", RetryableConfigurationProblem, Remedy{
			CloudProfile: "set certConfigMap in the source of the image version",
			Provider:     "correct the ConfigMap with the CA of the image's source",
		}},
		{"ImageCorrupt", RetryableConfigurationProblem, Remedy{CloudProfile: "correct the image or its checksum"}},
		{"ImageUnreachable", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the source of the image version",
			Provider:     "check that pods can reach the image's source",
		}},
		{"ImagePullFailed", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the image of the container disk",
			Provider:     "check that the nodes can pull the image",
		}},
		{"ImportOutOfMemory", RetryableConfigurationProblem, Remedy{
			Provider: "raise the memory limit of CDI's pods (podResourceRequirements in the configuration of the CDI resource); then delete the DataVolume in the message, " +
				"unless it is being imported: a golden image is created again automatically",
		}},
		{"ImportFailed", RetryableConfigurationProblem, Remedy{
			CloudProfile: "correct the image or its source",
			Provider:     "check the DataVolume and the pods of CDI",
		}},
		{"DataVolumeFailed", RetryableConfigurationProblem, Remedy{
			Provider: "check the DataVolume and the pods of CDI",
			Seed:     "delete the Machine, so that its volumes are created again; golden images are created again automatically",
		}},
	}
}

// starts are failures of machines whose pod exists.
func starts() []Failure {
	return []Failure{
		{"CrashLooping", RetryableConfigurationProblem, Remedy{
			Shoot:        "use another image version or machine type",
			CloudProfile: "check that the image fits the machine type: architecture, firmware, size",
		}},
		{"SecretNotFound", RetryableConfigurationProblem, Remedy{
			Provider: "create the Secret or the ConfigMap",
			Seed:     "if it is the user data, delete the Machine; it is created again",
		}},
		{"NetworkSetupFailed", RetryableConfigurationProblem, Remedy{
			Shoot:    "correct the networks of the InfrastructureConfig",
			Provider: "check the network plugin on the node",
		}},
		{"NodeDown", RetryableInfraDependencies, Remedy{
			Provider: "repair the node; if it is off permanently, delete its Node object or taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
		}},
		{"MachineStopped", RetryableInfraDependencies, Remedy{
			Provider: "start the VirtualMachine again (virtctl start)",
			Seed:     "to remove the machine, delete the Machine",
		}},
		{"GuestNotStarted", RetryableInfraDependencies, Remedy{
			Provider: "check the log of virt-handler on the node in the message",
			Seed:     "if the node is at fault, delete the Machine, so that it is replaced",
		}},
		{"GuestPaused", RetryableInfraDependencies, Remedy{
			Provider: "after an I/O error, repair the storage of the machine's volumes; otherwise, resume the guest (virtctl unpause vm)",
		}},
		{"GuestEnded", RetryableInfraDependencies, Remedy{
			Provider: "check the events of the VirtualMachineInstance",
			Seed:     "delete the Machine, so that it is replaced",
		}},
		{MachineVanished, RetryableInfraDependencies, Remedy{
			Provider: "look for the deletion in the audit log",
			Seed: "wait until machine-controller-manager replaces the Machine, when its Node is gone or has not been Ready for the health timeout, or " +
				"delete the Machine to replace it now",
		}},
	}
}

// components are failures of the programs between a Machine and its virtual machine.
func components() []Failure {
	return []Failure{
		{"ProviderUnavailable", RetryableInfraDependencies, Remedy{Provider: "repair the API server, or the network path from the seed to it"}},
		{"TimedOut", RetryableInfraDependencies, Remedy{Provider: "remove the blocker in the message; the deletion then continues"}},
		{"DriverUnavailable", RetryableInfraDependencies, Remedy{Seed: "repair the driver, or the network path to it"}},
		{"DriverAnswerInvalid", RetryableInfraDependencies, Remedy{Seed: "run a driver of the same version as the machine controller"}},
	}
}
