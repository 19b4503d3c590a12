{{/* The labels for the NetworkPolicies of a seed: the shoot's kube-apiserver and DNS. */}}
{{- define "pod.networks.shoot" -}}
networking.gardener.cloud/to-dns: allowed
networking.resources.gardener.cloud/to-kube-apiserver-tcp-443: allowed
{{- end }}

{{/* The labels for pods that also call the provider cluster, in a public or a private network. It may be a shoot of this seed. */}}
{{- define "pod.networks" -}}
{{ include "pod.networks.shoot" . }}
networking.gardener.cloud/to-public-networks: allowed
networking.gardener.cloud/to-private-networks: allowed
networking.resources.gardener.cloud/to-all-istio-ingresses-istio-ingressgateway-tcp-9443: allowed
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

{{/* The volume with the credentials for the provider cluster: a Secret's name. */}}
{{- define "volume.provider" -}}
- name: provider
  secret:
    secretName: {{ . }}
    defaultMode: 420
    items:
      - {key: kubeconfig, path: kubeconfig}
      - {key: token, path: token}
{{- end }}

{{/* The same, which only the proxy mounts, and the volume with the kubeconfig for the proxy. */}}
{{- define "volumes.provider" -}}
{{ include "volume.provider" . }}
- name: provider-proxy
  configMap: {name: provider-proxy}
{{- end }}

{{/* The mount of the kubeconfig for the proxy. */}}
{{- define "mount.provider" -}}
- {name: provider-proxy, mountPath: {{ .Values.providerProxy.mountPath }}, readOnly: true}
{{- end }}

{{/*
The container through which a program reaches the provider cluster: it has the credentials, and bounds the responses.
Until it listens, the programs repeat their requests.
*/}}
{{- define "container.proxy" -}}
- name: kubevirt-provider-proxy
  image: {{ index .Values.images "provider-proxy" }}
  imagePullPolicy: IfNotPresent
  command:
    - /kubevirt-provider-proxy
    - --credentials=/var/run/secrets/provider
    - --port={{ .Values.providerProxy.port }}
    - --health-port={{ .Values.providerProxy.healthPort }}
    - --allow-internal-provider-servers={{ .Values.providerProxy.allowInternalServers }}
  {{- include "container.memory" (dict "name" "kubevirt-provider-proxy" "root" .) | nindent 2 }}
  ports:
    - {name: proxy-health, containerPort: {{ .Values.providerProxy.healthPort }}, protocol: TCP}
  livenessProbe:
    httpGet: {path: /healthz, port: proxy-health}
    initialDelaySeconds: 5
  readinessProbe:
    httpGet: {path: /readyz, port: proxy-health}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  volumeMounts:
    - {name: provider, mountPath: /var/run/secrets/provider, readOnly: true}
{{- end }}

{{/*
The memory of a container: (dict "name" name "root" $ "env" variables). Near the soft limit, Go's runtime collects
garbage more often, so that garbage alone does not end the container.
*/}}
{{- define "container.memory" -}}
{{- $memory := index .root.Values.memory .name -}}
env:
  - {name: GOMEMLIMIT, value: {{ $memory.soft }}}
  {{- with .env }}
  {{- . | nindent 2 }}
  {{- end }}
resources:
  requests: {cpu: 5m, memory: {{ $memory.request }}}
  limits: {memory: {{ $memory.limit }}}
{{- end }}

{{/* KubeVirt builds its images for this architecture only. */}}
{{- define "affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
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
        # The limit stays, and no request exceeds it.
        controlledValues: RequestsOnly
        maxAllowed: {memory: {{ (index $.root.Values.memory .).limit }}}
      {{- end }}
{{- end }}

{{/* The labels that select the pods of a Deployment. */}}
{{- define "selector" -}}
app: kubernetes
role: {{ . }}
{{- end }}
