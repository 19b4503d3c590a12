{{/* The metadata that the chart adds to an object of the repository: (dict "object" object "root" $). */}}
{{- define "adopt" -}}
{{- $metadata := .object.metadata }}
{{- if not (hasPrefix "Cluster" .object.kind | or (hasPrefix "Validating" .object.kind) | or (hasKey $metadata "namespace")) }}
{{- $_ := set $metadata "namespace" .root.Release.Namespace }}
{{- end }}
{{- $_ := set $metadata "labels" (merge (default dict $metadata.labels) (dict
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version))) }}
{{- end -}}
