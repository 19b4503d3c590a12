{{- define "name" -}}
gardener-extension-provider-kubevirt
{{- end -}}

{{/* The name of objects outside of a namespace, by Gardener's conventions for extensions. */}}
{{- define "clusterName" -}}
extensions.gardener.cloud:provider-kubevirt:{{ include "name" . }}
{{- end -}}

{{/* The Lease of the leader; the extension's default for --leader-election-id. */}}
{{- define "leaderElectionID" -}}
provider-kubevirt-leader-election
{{- end -}}

{{/* The ports; the order in usablePorts is that of Gardener's provider-local. */}}
{{- define "metricsPort" -}}
{{ .Values.metricsPort | default (index .Values.usablePorts 0) }}
{{- end -}}

{{- define "webhookPort" -}}
{{ .Values.webhookConfig.serverPort | default (index .Values.usablePorts 1) }}
{{- end -}}

{{- define "healthPort" -}}
{{ .Values.healthPort | default (index .Values.usablePorts 2) }}
{{- end -}}

{{- define "labels" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "image" -}}
{{- if hasPrefix "sha256:" .tag -}}
{{ .repository }}@{{ .tag }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
