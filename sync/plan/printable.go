package plan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a text safe for a terminal, a log line and a status: it escapes what cannot be printed as in a Go string. People
// choose names, in vCenter as in Kubernetes, and a control character in one could forge a line, color or hide text, or
// reverse its direction (U+202E). Printable characters of any script stay.
func Printable(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unprintable(r) {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// unprintable also covers invalid UTF-8, which is decoded as U+FFFD.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Count says how many there are of something: "1 member", "2 members".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// AtMost joins the first n items and says how many more there are.
func AtMost(items []string, n int) string {
	if len(items) <= n {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:n], ", "), len(items)-n)
}
