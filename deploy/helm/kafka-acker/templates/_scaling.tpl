{{/* KEDA scales by the lag of a consumer group: {topology}.{spout} for a spout's source, {topology}.{bolt} for a bolt's
inbox. */}}
{{- define "acker.scaling" -}}
{{- $settings := merge (dict) (.of.settings | default dict) .Values.settings -}}
{{- $protocol := dig "ACKER_KAFKA__SECURITY_PROTOCOL" "PLAINTEXT" $settings | upper -}}
{{- $sasl := hasPrefix "SASL" $protocol -}}
{{- $tls := hasSuffix "SSL" $protocol -}}
{{- $topology := required "autoscaling needs topology.name, the name passed to TopologyBuilder" .Values.topology.name -}}
{{- $secret := .of.secret | default .Values.secret -}}
{{- if and $sasl (not $secret) }}{{ fail "autoscaling with SASL needs a secret with ACKER_KAFKA__SASL_USERNAME and ACKER_KAFKA__SASL_PASSWORD" }}{{ end }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ include "acker.name" . }}
  labels: {{- include "acker.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {name: {{ include "acker.name" . }}}
  minReplicaCount: {{ dig "minReplicas" 1 .scaling }}
  maxReplicaCount: {{ .scaling.maxReplicas }}
  triggers:
    - type: kafka
      metadata:
        bootstrapServers: {{ $settings.ACKER_KAFKA__BOOTSTRAP_SERVERS | quote }}
        consumerGroup: {{ printf "%s.%s" $topology .role }}
        topic: {{ .scaling.topic | default (printf "%s.tuples.%s" $topology .role) }}
        lagThreshold: {{ dig "lagThreshold" 1000 .scaling | int64 | quote }}
        {{- if .scaling.excludePersistentLag }}
        excludePersistentLag: "true"
        {{- end }}
        {{- if $sasl }}
        sasl: {{ get (dict "PLAIN" "plaintext" "SCRAM-SHA-256" "scram_sha256" "SCRAM-SHA-512" "scram_sha512") (dig "ACKER_KAFKA__SASL_MECHANISM" "" $settings | upper) | required "autoscaling supports the SASL mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512" }}
        {{- end }}
        {{- if $tls }}
        tls: enable
        {{- end }}
      {{- if or $sasl (and $tls .Values.certificates) }}
      authenticationRef: {name: {{ include "acker.name" . }}}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata:
  name: {{ include "acker.name" . }}
  labels: {{- include "acker.labels" . | nindent 4 }}
spec:
  secretTargetRef:
    {{- if $sasl }}
    - {parameter: username, name: {{ $secret }}, key: ACKER_KAFKA__SASL_USERNAME}
    - {parameter: password, name: {{ $secret }}, key: ACKER_KAFKA__SASL_PASSWORD}
    {{- end }}
    {{- if and $tls .Values.certificates }}
    - {parameter: ca, name: {{ .Values.certificates }}, key: ca.crt}
    {{- if hasKey $settings "ACKER_KAFKA__SSL_CERTIFICATE_LOCATION" }}
    - {parameter: cert, name: {{ .Values.certificates }}, key: tls.crt}
    - {parameter: key, name: {{ .Values.certificates }}, key: tls.key}
    {{- end }}
    {{- end }}
      {{- end }}
{{- end -}}
