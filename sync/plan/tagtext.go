package plan

import (
	"net/url"
	"strings"
)

var tagEscapes = strings.NewReplacer("%", "%25", "/", "%2f")

// TagText is a tag as Preparation keeps it.
func TagText(category, name string) string {
	return tagEscapes.Replace(category) + "/" + tagEscapes.Replace(name)
}

// CutTag gives the category and the name of a tag's text.
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
