{{- define "name" -}}
gardener-extension-admission-kubevirt
{{- end -}}

{{/* The name of objects outside of a namespace, by Gardener's conventions for extensions. */}}
{{- define "clusterName" -}}
extensions.gardener.cloud:provider-kubevirt:{{ include "name" . }}
{{- end -}}

{{- define "labels" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
