{{/* A file of manifests/, in the namespace of the release. */}}
{{- define "vmgroup.file" -}}
{{ .root.Files.Get (print "files/" .path) | required (print "files/" .path " is missing") | replace "vmgroup-system" .root.Release.Namespace }}
{{- end }}

{{- define "vmgroup.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* host:port of the hooks, as Metacontroller calls them. */}}
{{- define "vmgroup.hooks" -}}
vmgroup.{{ .Release.Namespace }}.svc:{{ include "vmgroup.port" . }}
{{- end }}

{{- define "vmgroup.port" -}}
{{ ternary 8080 8443 .Values.simulator }}
{{- end }}

{{/* The name of the CompositeController. */}}
{{- define "vmgroup.controller" -}}
{{ .Values.compositeController.name | default (printf "vmgroup-%s" (.Values.vcenter.name | default "") | trimSuffix "-") }}
{{- end }}

{{/* Whether a Secret is Helm's to write: it is missing, or this release made it. */}}
{{- define "vmgroup.ours" -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" .secret -}}
{{- if or (not .secret) (eq $owner .root.Release.Name) }}yes{{ end }}
{{- end }}
