package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// escapes are the ways in which a text is escaped within another one.
var escapes = []func(string) string{
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace,
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace,
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace, // encoding/xml, html/template
	inJSON,
	strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace, // undoes the escapes that inJSON adds for HTML
	quoted,
	url.QueryEscape,
	url.PathEscape,
	func(s string) string { return lowerHex(url.QueryEscape(s)) },
	func(s string) string { return lowerHex(url.PathEscape(s)) },
}

func inJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(text[1 : len(text)-1])
}

func quoted(s string) string {
	text := strconv.Quote(s)
	return text[1 : len(text)-1]
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

func lowerHex(s string) string { return percent.ReplaceAllStringFunc(s, strings.ToLower) }

// forms returns the ways in which a secret may be written: escaped, also twice (in XML within JSON); in base64, also as a part of a longer
// text (user:password); in hexadecimal digits.
func forms(s string) []string {
	all := []string{s}
	for range 2 {
		for _, form := range slices.Clone(all) {
			for _, escape := range escapes {
				all = append(all, escape(form))
			}
		}
		slices.Sort(all)
		all = slices.Compact(all)
	}
	for _, form := range inBase64(s) {
		all = append(all, form, url.QueryEscape(form), lowerHex(url.QueryEscape(form)), strings.ReplaceAll(form, "/", `\/`))
	}
	all = append(all, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))))
	slices.Sort(all)
	return slices.Compact(all)
}

// inBase64 returns the characters of a text in base64, in both alphabets, for each of the three offsets at which the text may begin in a
// group of three bytes.
func inBase64(s string) (all []string) {
	for before := range 3 {
		padded := append(make([]byte, before), s...)
		first := []int{0, 2, 3}[before] // the characters before these depend on the bytes before the text
		last := len(padded) * 8 / 6     // and the next one depends on the bytes after it
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if text := e.EncodeToString(padded); first < last {
				all = append(all, text[first:last])
			}
		}
	}
	return all
}
