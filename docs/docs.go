// Package docs holds the documents, which the server's page shows where it names a reason.
package docs

import "embed"

// Pages are the documents, in Markdown.
//
//go:embed *.md
var Pages embed.FS
