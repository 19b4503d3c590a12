{{/* The security context of a container that needs no privileges. */}}
{{- define "container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
{{- end }}
