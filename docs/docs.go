// Package docs contains the documents, which the server's page links to from each reason.
package docs

import "embed"

// Pages are the documents, in Markdown.
//
//go:embed *.md
var Pages embed.FS
