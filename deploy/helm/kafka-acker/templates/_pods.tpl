{{/* The name of an object of a role, in lower case, as Kubernetes requires. */}}
{{- define "acker.name" -}}
{{- $name := printf "%s-%s" .Release.Name .role | lower | replace "_" "-" -}}
{{- if gt (len $name) 63 -}}{{ fail (printf "%s has more than 63 characters: give the release a shorter name" $name) }}{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The labels that select the pods of a role; a component's name may be longer than a label. */}}
{{- define "acker.labels" -}}
app.kubernetes.io/name: kafka-acker
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .role | trunc 63 | trimAll "-_" }}
{{- end -}}

{{/* A deployment. Its dict has the fields of the root and: `role`; `args`; `of`, the values of the role; `env`, fixed
settings; `probes`, the name of a template; `grace`, in seconds. */}}
{{- define "acker.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "acker.name" . }}
  labels: {{- include "acker.labels" . | nindent 4 }}
spec:
  {{- if not .of.autoscaling }}
  replicas: {{ dig "replicas" 1 .of }}
  {{- end }}
  selector:
    matchLabels: {{- include "acker.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "acker.labels" . | nindent 8 }}
      {{- if eq .probes "acker.metrics" }}
      annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9464"}
      {{- end }}
    spec: {{- include "acker.pod" . | nindent 6 }}
{{- end -}}

{{/* Draining nodes evicts one pod at a time, even the only one. */}}
{{- define "acker.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "acker.name" . }}
  labels: {{- include "acker.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "acker.labels" . | nindent 6 }}
{{- end -}}

{{/* The specification of a pod, merged with `pod` of the values. */}}
{{- define "acker.pod" -}}
{{- $pod := fromYaml (include "acker.ownPod" .) -}}
{{- toYaml (mergeOverwrite $pod .Values.pod) -}}
{{- end -}}

{{- define "acker.ownPod" -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .grace | default 30 }}
{{- with .restartPolicy }}
restartPolicy: {{ . }}
{{- end }}
containers:
  - {{- include "acker.container" . | nindent 4 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "acker.labels" . | fromYaml | toJson }}}
volumes:
  - {name: tmp, emptyDir: {}}
  {{- with .Values.certificates }}
  - {name: certificates, secret: {secretName: {{ . }}}}
  {{- end }}
{{- end -}}

{{- define "acker.container" -}}
name: acker
image: {{ .Values.image | quote }}
args: {{ toJson .args }}
env:
  {{- range $name, $value := merge (dict) (.env | default dict) (.of.settings | default dict) .Values.settings }}
  {{- if regexMatch "PASSW|SECRET|TOKEN|CREDENTIAL|PRIVATE|KEY_PEM|KEYSTORE_KEY$|JAAS|OAUTHBEARER_(CONFIG|ASSERTION)|_PIN$" $name }}
  {{- fail (printf "%s is a secret: put it into a Kubernetes secret, and set `secret` to its name" $name) }}
  {{- end }}
  - {name: {{ $name }}, value: {{ quote $value }}}
  {{- end }}
{{- with compact (list (.of.secret | default .Values.secret) .of.tokenSecret) }}
envFrom:
  {{- range . }}
  - {secretRef: {name: {{ . }}}}
  {{- end }}
{{- end }}
{{- with .of.resources }}
resources: {{ toJson . }}
{{- end }}
{{- with .probes }}
{{ include . $ }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.certificates }}
  - {name: certificates, mountPath: /etc/acker/certificates, readOnly: true}
  {{- end }}
{{- end -}}

{{/* Metrics, and the probes on their port. A process whose loop is stuck fails /live and is killed, and its tasks move.
/health depends on Kafka, so it only decides about readiness: a restart would not help. */}}
{{- define "acker.metrics" -}}
ports: [{name: metrics, containerPort: 9464}]
startupProbe: {httpGet: {path: /live, port: metrics}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 24}
livenessProbe: {httpGet: {path: /live, port: metrics}, periodSeconds: 5, timeoutSeconds: 5}
readinessProbe: {httpGet: {path: /health, port: metrics}, periodSeconds: 5, timeoutSeconds: 5}
{{- end -}}

{{/* Without the token every answer is 401, which an httpGet probe counts as a failure: these probes accept any answer. */}}
{{- define "acker.answers" -}}
{{- $answers := dict "exec" (dict "command" (list "bash" "-c" "exec 3<>/dev/tcp/127.0.0.1/8420 && printf 'GET / HTTP/1.0\\r\\nHost:localhost\\r\\n\\r\\n' >&3 && head -1 <&3 | grep -q HTTP")) "periodSeconds" 10 "timeoutSeconds" 5 -}}
ports: [{name: http, containerPort: 8420}]
startupProbe: {{ merge (dict "periodSeconds" 5 "failureThreshold" 24) $answers | toJson }}
livenessProbe: {{ toJson $answers }}
readinessProbe: {{ toJson $answers }}
{{- end -}}

{{- define "acker.serves" -}}
ports: [{name: http, containerPort: 8421}]
startupProbe: {httpGet: {path: /health, port: http}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 24}
livenessProbe: {tcpSocket: {port: http}, periodSeconds: 10, timeoutSeconds: 5}
readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 5, timeoutSeconds: 5}
{{- end -}}
