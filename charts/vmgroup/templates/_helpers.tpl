{{/* The name of the release's objects: the release's, with the chart's in it. */}}
{{- define "vmgroup.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What selects the pods: it can't change after the first install. */}}
{{- define "vmgroup.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "vmgroup.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "vmgroup.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object of this release: (root, the end of its name, more labels). */}}
{{- define "vmgroup.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "vmgroup.fullname" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- merge dict (index . 2) (include "vmgroup.labels" $root | fromYaml) | toYaml | nindent 2 }}
{{- end }}

{{/* The objects of a file that manifests/ shares, with the labels of the release: (root, path below files/). */}}
{{- define "vmgroup.objects" -}}
{{- $root := index . 0 }}
{{- $file := print "files/" (index . 1) }}
{{- range $root.Files.Get $file | required (print $file " is missing") | print "\n" | replace "vmgroup-system" $root.Release.Namespace | splitList "\n---\n" }}
{{- with fromYaml . }}
{{- $_ := set .metadata "labels" (merge (include "vmgroup.labels" $root | fromYaml) (.metadata.labels | default dict)) }}
---
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "vmgroup.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "vmgroup.fullname" .) "default") }}
{{- end }}

{{- define "vmgroup.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Where Metacontroller calls the hooks. */}}
{{- define "vmgroup.host" -}}
{{ include "vmgroup.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "vmgroup.hooks" -}}
{{ include "vmgroup.host" . }}:{{ include "vmgroup.servicePort" . }}
{{- end }}

{{- define "vmgroup.port" -}}
{{ ternary 8080 8443 .Values.simulator }}
{{- end }}

{{- define "vmgroup.servicePort" -}}
{{- if eq (int .Values.service.port) 8081 }}
{{- fail "service.port: 8081 is the Service's port of /healthz and /metrics; choose another one for the hooks" }}
{{- end -}}
{{ .Values.service.port | default (include "vmgroup.port" .) }}
{{- end }}

{{/* How much memory Go's garbage collector leaves in use. With one that is far below the limit, it would run all the time. */}}
{{- define "vmgroup.goMemLimit" -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) | toString }}
{{- if .Values.goMemLimit }}
{{- .Values.goMemLimit }}
{{- else if regexMatch "^[0-9]+([.][0-9]+)?[MG]i$" $limit }}
{{- mulf (regexFind "^[0-9.]+" $limit) (ternary 1024 1 (hasSuffix "Gi" $limit)) 0.9 | floor | int64 }}MiB
{{- else if $limit }}
{{- fail (printf "resources.limits.memory: %s is not in Mi or Gi, such as 512Mi: write it so, or set goMemLimit to nine tenths of it" $limit) }}
{{- end }}
{{- end }}

{{/* The port of an address that may have neither scheme nor port: (the address, the scheme that it then has). */}}
{{- define "vmgroup.portOf" -}}
{{- $address := index . 0 | trim }}
{{- if regexMatch "^[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*$" $address }}{{ $address = printf "[%s]" $address }}{{ end }}
{{- if not (contains "://" $address) }}{{ $address = printf "%s://%s" (index . 1) $address }}{{ end }}
{{- $url := urlParse $address }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (get (dict "http" "80" "socks5" "1080" "socks5h" "1080") $url.scheme) | default "443" }}
{{- end }}

{{/* The name of the CompositeController. It is in the finalizers of the groups, so the release doesn't change it. */}}
{{- define "vmgroup.controller" -}}
{{ .Values.compositeController.name | default (printf "vmgroup-%s" (.Values.vcenter.name | default "") | trimSuffix "-") }}
{{- end }}

{{/* Whether a Secret is Helm's to write: it is missing, or this release made it. */}}
{{- define "vmgroup.ours" -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" .secret -}}
{{- if or (not .secret) (eq $owner .root.Release.Name) }}yes{{ end }}
{{- end }}
