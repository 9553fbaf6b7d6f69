{{- define "gvList" -}}
# API reference

All types, with their bounds and units. [fields.md](fields.md) says what the fields are for. `make generate` writes this page from `api/v1alpha1`.
{{ range . }}{{ range .SortedTypes }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}

{{- define "type" -}}
{{- if markdownShouldRenderType . }}
## {{ .Name }}

{{ if .EnumValues -}}
{{ range $i, $v := .EnumValues }}{{ if $i }}, {{ end }}`{{ $v.Name }}`{{ end }}
{{- else -}}
{{ .Doc }}
{{- end }}
{{- if .Members }}

| field | type | default | meaning |
|---|---|---|---|
{{- range .Members }}
{{- if and (ne .Name "kind") (ne .Name "apiVersion") (ne .Name "metadata") }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ with .Default }}`{{ . }}`{{ end }}{{ range .Validation }}{{ if eq . "Required: {}" }}required{{ end }}{{ end }} | {{ regexReplaceAll "<br />" (markdownRenderFieldDoc .Doc) " " }} |
{{- end }}
{{- end }}
{{- end }}
{{ end }}
{{- end -}}
