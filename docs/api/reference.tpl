{{- define "gvList" -}}
# API reference

`make generate` writes this page from the comments in `api/v1alpha1`. [fields.md](fields.md) says what the fields are for. What spans
several fields, or takes an expression to say, is in the descriptions; the CRD has the rules.
{{ range . }}{{ range .SortedTypes }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}

{{- define "type" -}}
{{- if markdownShouldRenderType . }}
## {{ .Name }}

{{ .Doc }}
{{- if .References }}

Used in {{ range $i, $r := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $r }}{{ end }}.
{{- end }}
{{- if .EnumValues }}

Values: {{ range $i, $v := .EnumValues }}{{ if $i }}, {{ end }}`{{ $v.Name }}`{{ end }}.
{{- end }}
{{- if .Members }}

| field | type | default | bounds | meaning |
|---|---|---|---|---|
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "bounds" .Validation }} | {{ markdownRenderFieldDoc .Doc }} |
{{- end }}
{{- end }}
{{ end }}
{{- end -}}

{{- define "bounds" -}}
{{- $any := false -}}
{{- range . -}}
{{- $start := printf "%.12s" . -}}
{{- if and (ne $start "XValidation:") (ne $start "items:XValid") (ne $start "Optional: {}") (ne $start "XIntOrString") -}}
{{- if $any }}, {{ end }}{{ if eq $start "Required: {}" }}required{{ else if regexMatch "e\\+[0-9]+$" . }}{{ regexFind "^.*: " . }}{{ regexFind "[0-9.]+e\\+[0-9]+$" . | float64 | int64 }}{{ else }}{{ markdownRenderFieldDoc . }}{{ end }}{{ $any = true -}}
{{- end -}}
{{- end -}}
{{- end -}}
