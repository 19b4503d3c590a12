// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"path"
	"strings"
)

// kind describes the objects of a resource.
type kind struct {
	version, name string
	// rest is an object's content besides its metadata. It has one placeholder for a quantity.
	rest string
}

const (
	kubeVirt = "kubevirt.io/v1"
	cdi      = "cdi.kubevirt.io/v1beta1"
	types    = "instancetype.kubevirt.io/v1beta1"
)

var kinds = map[string]kind{
	"virtualmachines": {kubeVirt, "VirtualMachine", `"spec":{"template":{"spec":{"domain":{"memory":{"guest":"%s"},"devices":{}}}}},
		"status":{"printableStatus":"Starting","created":true}`},
	"virtualmachineinstances":          {kubeVirt, "VirtualMachineInstance", `"spec":{"domain":{"memory":{"guest":"%s"},"devices":{}}},"status":{"phase":"Scheduling"}`},
	"virtualmachineinstancemigrations": {kubeVirt, "VirtualMachineInstanceMigration", `"spec":{"vmiName":"m","x":"%s"},"status":{}`},
	"kubevirts":                        {kubeVirt, "KubeVirt", `"spec":{"configuration":{"migrations":{"bandwidthPerMigration":"%s"}}},"status":{"phase":"Deployed"}`},
	"datavolumes":                      {cdi, "DataVolume", `"spec":{"pvc":{"resources":{"requests":{"storage":"%s"}}}},"status":{"phase":"ImportInProgress"}`},
	"cdis":                             {cdi, "CDI", `"spec":{"config":{"podResourceRequirements":{"limits":{"memory":"%s"}}}},"status":{"phase":"Deployed"}`},
	"cdiconfigs":                       {cdi, "CDIConfig", `"spec":{},"status":{"defaultPodResourceRequirements":{"limits":{"memory":"%s"}}}`},
	"storageprofiles":                  {cdi, "StorageProfile", `"spec":{},"status":{"storageClass":"s","x":"%s"}`},
	"datasources":                      {cdi, "DataSource", `"spec":{"source":{"pvc":{"name":"a","namespace":"b"}},"x":"%s"}`},
	"virtualmachineinstancetypes":      {types, "VirtualMachineInstancetype", `"spec":{"cpu":{"guest":1},"memory":{"guest":"%s"}}`},
	"virtualmachineclusterinstancetypes": {
		types, "VirtualMachineClusterInstancetype", `"spec":{"cpu":{"guest":1},"memory":{"guest":"%s"}}`,
	},
	"virtualmachinepreferences":        {types, "VirtualMachinePreference", `"spec":{"x":"%s"}`},
	"virtualmachineclusterpreferences": {types, "VirtualMachineClusterPreference", `"spec":{"x":"%s"}`},
	"pods":                             {"v1", "Pod", `"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"requests":{"memory":"%s"}}}]},"status":{"phase":"Running"}`},
	"nodes":                            {"v1", "Node", `"spec":{},"status":{"allocatable":{"memory":"%s"}}`},
	"events":                           {"v1", "Event", `"message":"%s","involvedObject":{"kind":"PersistentVolumeClaim","uid":"u"}`},
	"secrets":                          {"v1", "Secret", `"stringData":{"x":"%s"}`},
	"resourcequotas":                   {"v1", "ResourceQuota", `"spec":{"hard":{"requests.memory":"%s"}},"status":{"used":{"requests.memory":"1"}}`},
	"limitranges":                      {"v1", "LimitRange", `"spec":{"limits":[{"type":"Pod","max":{"memory":"%s"}}]}`},
	"storageclasses":                   {"storage.k8s.io/v1", "StorageClass", `"provisioner":"p","parameters":{"x":"%s"}`},
	"persistentvolumeclaims":           {"v1", "PersistentVolumeClaim", `"spec":{"resources":{"requests":{"storage":"%s"}}}`},
	"network-attachment-definitions":   {"k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", `"spec":{"config":"%s"}`},
	"mutatingwebhookconfigurations":    {"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", `"webhooks":[{"name":"w","x":"%s"}]`},
	"selfsubjectreviews":               {"authentication.k8s.io/v1", "SelfSubjectReview", `"status":{"userInfo":{"username":"u","extra":{"x":["%.4s"]}}}`},
	"selfsubjectaccessreviews":         {"authorization.k8s.io/v1", "SelfSubjectAccessReview", `"spec":{},"status":{"allowed":true,"reason":"%.4s"}`},
}

// kindOf returns the JSON of the kind and API version of a request's objects; suffix
// is appended to the kind.
func kindOf(r *http.Request, suffix string) string {
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return `"kind":"PartialObjectMetadata` + suffix + `","apiVersion":"meta.k8s.io/v1"`
	}

	k := kinds[resourceOf(r)]

	return fmt.Sprintf(`"kind":"%s%s","apiVersion":%q`, k.name, suffix, k.version)
}

// resourceOf returns the last resource in the request's path.
func resourceOf(r *http.Request) string {
	found := ""

	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if _, known := kinds[part]; known {
			found = part
		}
	}

	return found
}

// objectOf returns the JSON of the requested object.
func objectOf(r *http.Request, quantity, metadata string) string {
	rest := `"spec":{"x":"%s"}`
	if k, known := kinds[resourceOf(r)]; known {
		rest = k.rest
	}

	return objectWith(r, metadata, fmt.Sprintf(rest, quantity))
}

// objectWith returns the JSON of the requested object with this content besides its metadata.
func objectWith(r *http.Request, metadata, rest string) string {
	name := "m"
	if _, list := kinds[path.Base(r.URL.Path)]; !list {
		name = path.Base(r.URL.Path)
	}

	return fmt.Sprintf(`{%s,"metadata":{"name":%q,"namespace":"machines","uid":%q,"resourceVersion":"1",
		"labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}%s},%s}`, kindOf(r, ""), name, "uid-"+name, metadata, rest)
}
