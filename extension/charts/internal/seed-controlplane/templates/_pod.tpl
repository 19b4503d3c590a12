{{/* The labels for the NetworkPolicies of a seed: the shoot's kube-apiserver and DNS. */}}
{{- define "pod.networks.shoot" -}}
networking.gardener.cloud/to-dns: allowed
networking.resources.gardener.cloud/to-kube-apiserver-tcp-443: allowed
{{- end }}

{{/* The labels for pods that also call the provider cluster, in a public or a private network. */}}
{{- define "pod.networks" -}}
{{ include "pod.networks.shoot" . }}
networking.gardener.cloud/to-public-networks: allowed
networking.gardener.cloud/to-private-networks: allowed
{{- end }}

{{/* The security context of a container. */}}
{{- define "container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A volume with a kubeconfig of the shoot: (dict "name" volume "access" Secret "root" $). */}}
{{- define "volume.shoot" -}}
- name: {{ .name }}
  projected:
    defaultMode: 420
    sources:
      - secret:
          name: {{ .root.Values.genericTokenKubeconfigSecretName }}
          optional: false
          items: [{key: kubeconfig, path: kubeconfig}]
      - secret:
          name: shoot-access-{{ .access }}
          optional: false
          items: [{key: token, path: token}]
{{- end }}

{{/* The mount of a volume with a kubeconfig of the shoot. */}}
{{- define "mount.shoot" -}}
- name: {{ . }}
  mountPath: /var/run/secrets/gardener.cloud/shoot/generic-kubeconfig
  readOnly: true
{{- end }}

{{/* The volume with the kubeconfig and the token for the provider cluster: the value "provider". */}}
{{- define "volume.provider" -}}
- name: provider
  secret:
    secretName: {{ .secret }}
    defaultMode: 420
    items:
      - {key: kubeconfig, path: kubeconfig}
      - {key: token, path: token}
{{- end }}

{{/* KubeVirt builds its images for this architecture only. */}}
{{- define "affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
{{- end }}

{{- define "mount.provider" -}}
- name: provider
  mountPath: /var/run/secrets/provider
  readOnly: true
{{- end }}

{{/* The budget and the autoscaler of a Deployment: (dict "name" name "containers" list "root" $). */}}
{{- define "budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "selector" .name | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "selector" .name | nindent 6 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata:
  name: {{ .name }}-vpa
  namespace: {{ .root.Release.Namespace }}
spec:
  targetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ .name }}
  updatePolicy:
    updateMode: InPlaceOrRecreate
  resourcePolicy:
    containerPolicies:
      {{- range .containers }}
      - containerName: {{ . }}
        controlledResources: [memory]
        controlledValues: RequestsOnly
      {{- end }}
{{- end }}

{{/* The labels that select the pods of a Deployment. */}}
{{- define "selector" -}}
app: kubernetes
role: {{ . }}
{{- end }}
