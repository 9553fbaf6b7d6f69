// Package docs contains the documents, which the server's page links to from each reason, and their pictures.
package docs

import "embed"

// Pages are the documents, in Markdown, and the pictures that they show.
//
//go:embed *.md how-it-works.svg
var Pages embed.FS
