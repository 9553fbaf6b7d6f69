package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonLines makes JSON log lines safe for a terminal: zerolog escapes characters below 0x20, but neither other control characters
// (U+009B begins a terminal's sequences) nor those that change the direction of a text (U+202E).
type jsonLines struct{ io.Writer }

func (w jsonLines) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, hidden) {
		return w.Writer.Write(line)
	}
	escaped := make([]byte, 0, len(line)+16)
	for rest := line; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case !hidden(r):
			escaped = append(escaped, rest[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := w.Writer.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

// hidden reports whether r is an unprintable character that JSON doesn't escape.
func hidden(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
