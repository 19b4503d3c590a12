{{/* The permissions of a program in the seed, whose account gardener-resource-manager creates in the
shoot: a ClusterRole with rules, and a Role for the Lease of its leader election.
(dict "name" program "lease" name-of-Lease "rules" rules-in-YAML) */}}
{{- define "rbac" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: extensions.gardener.cloud:provider-kubevirt:{{ .name }}
rules: {{ .rules | nindent 2 }}
---
{{ include "binding" (dict "kind" "ClusterRole" "name" .name) }}
{{- if .lease }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: extensions.gardener.cloud:provider-kubevirt:{{ .name }}
  namespace: kube-system
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .lease }}]
    verbs: [get, update]
---
{{ include "binding" (dict "kind" "Role" "name" .name) }}
{{- end }}
{{- end }}

{{- define "binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: extensions.gardener.cloud:provider-kubevirt:{{ .name }}
  {{- if eq .kind "Role" }}
  namespace: kube-system
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: extensions.gardener.cloud:provider-kubevirt:{{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: kube-system
{{- end }}
