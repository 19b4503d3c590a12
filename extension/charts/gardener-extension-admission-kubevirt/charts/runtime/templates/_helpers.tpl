{{- define "name" -}}
gardener-extension-admission-kubevirt
{{- end -}}

{{- define "labels" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The Lease of the leader; the program's default for --leader-election-id. */}}
{{- define "leaderElectionID" -}}
admission-kubevirt-leader-election
{{- end -}}

{{- define "image" -}}
{{- if hasPrefix "sha256:" .tag -}}
{{ .repository }}@{{ .tag }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
