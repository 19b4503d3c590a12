// Package core is a stub: the names in the API group of virt-template that KubeVirt uses.
package core

// The names of the type VirtualMachineTemplate.
const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
