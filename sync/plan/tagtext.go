package plan

import (
	"net/url"
	"strings"
)

var tagEscapes = strings.NewReplacer("%", "%25", "/", "%2f")

// tagText returns a tag as Preparation records it.
func tagText(category, name string) string {
	return tagEscapes.Replace(category) + "/" + tagEscapes.Replace(name)
}

// CutTag returns the category and the name in a tag's text.
func CutTag(text string) (category, name string) {
	category, name, _ = strings.Cut(text, "/")
	return unescapeTag(category), unescapeTag(name)
}

func unescapeTag(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
