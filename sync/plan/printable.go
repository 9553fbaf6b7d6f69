package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes a text safe for a terminal, a log line and a status: it escapes unprintable characters as in a Go string. Users choose
// names, in vCenter as in Kubernetes, and a control character in a name could forge a line, color or hide text, or reverse its direction
// (U+202E). Printable characters of any script are kept.
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

// PrintableJSON escapes the unprintable characters that encoders of JSON leave: neither a control character above 0x7f (U+009B begins a terminal's
// sequences) nor one that changes the direction of a text (U+202E) is in the result, which decodes to the same value.
func PrintableJSON(text []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	escaped := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !hidden(r):
			escaped = append(escaped, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		text = text[size:]
	}
	return escaped
}

// unprintable is also true for U+FFFD, which is what invalid UTF-8 is decoded as.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Count returns a number with its noun: "1 member", "2 members".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Bounds of texts, in bytes. Texts don't normally reach them, because each list in a text is bounded (AtMost), and so is each name.
const (
	// TextMost bounds a text about a group: status.lastMessage, a condition's message, a verdict, a refusal. The API server accepts 32,768
	// characters in a condition (the CRD's schema, from metav1.Condition), and a status can have 26 conditions: with this bound they have 0.1
	// MB together, of the 1.5 MiB that etcd accepts in one request.
	TextMost = 4000
	// MemberTextMost bounds a text about one member: 1,000 of them have 0.5 MB.
	MemberTextMost = 512
	// itemMost bounds one item of a list. A name in vCenter has at most 80 characters, and a name in Kubernetes 253.
	itemMost = 253
)

// Bounded cuts a text that exceeds that many bytes between two characters, and appends "…".
func Bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(text[:cut], "") + "…"
}

// AtMost joins the first n items, each cut to 253 bytes, and says how many more there are. Every list in a message is made with AtMost or
// SentencesAtMost.
func AtMost(items []string, n int) string {
	var b strings.Builder
	for i, item := range items[:min(n, len(items))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Bounded(item, itemMost))
	}
	if more := len(items) - n; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// SentencesAtMost is AtMost for sentences, which it does not cut.
func SentencesAtMost(items []string, n int) string {
	if len(items) <= n {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:n], "; "), len(items)-n)
}
