{{/* Not the release's name: routers find the operator by this one, and there is one operator a cluster. */}}
{{- define "terrace.name" -}}terrace-operator{{- end }}

{{- define "terrace.selector" -}}
app.kubernetes.io/name: terrace-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "terrace.labels" -}}
{{ include "terrace.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: terrace
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* terrace.image (list IMAGE CHART): by digest, else by tag, else by the chart's appVersion */}}
{{- define "terrace.image" -}}
{{- $image := index . 0 -}}{{- $chart := index . 1 -}}
{{- if $image.digest -}}{{ $image.repository }}@{{ $image.digest }}{{- else -}}{{ $image.repository }}:{{ $image.tag | default $chart.AppVersion }}{{- end -}}
{{- end }}
