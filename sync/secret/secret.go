// Package secret keeps this process's own secrets out of texts that come from outside: a fault may quote the request that it answers, with
// the password in it, and ends up in a status, on a page, in the log.
//
// There are two kinds. A few long-lived secrets (the account's password, sessions, tokens) are known to the whole process: Keep registers
// them, and Clean masks them. Data that an action sends, such as the user data of a guest, is large, and known to the action alone, which
// has a Bag.
package secret

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Mask stands for a secret in a text.
const Mask = "[redacted]"

const (
	// shortest is the length of the shortest text that is masked, in bytes. wordy is the length from which a text is also masked within a
	// word: a shorter one could be a part of many words.
	shortest, wordy = 4, 8
	// former is how many values of a source are remembered: an answer may quote a value that was replaced after the request.
	former = 8
)

// kept has the secrets of the process, by their source.
var kept struct {
	sync.Mutex
	by   map[string][]string
	mask atomic.Pointer[masker]
}

// Keep registers a secret for Clean. The last few values of each source are remembered.
func Keep(source, value string) {
	if len(value) < shortest {
		return
	}
	kept.Lock()
	defer kept.Unlock()
	all := kept.by[source]
	if slices.Contains(all, value) {
		return
	}
	if kept.by == nil {
		kept.by = map[string][]string{}
	}
	all = append(slices.Clip(all), value)
	kept.by[source] = all[max(0, len(all)-former):]
	m := newMasker(slices.Concat(slices.Collect(maps.Values(kept.by))...))
	kept.mask.Store(m)
}

// Clean masks the secrets of the process in a text, in any of their forms.
func Clean(text string) string {
	if m := kept.mask.Load(); m != nil {
		return m.clean(text)
	}
	return text
}

// Writer cleans what is written to it, each call separately.
type Writer struct{ io.Writer }

func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// masker masks some secrets.
type masker struct {
	long  *strings.Replacer
	short []string
}

func newMasker(secrets []string) *masker {
	var long []string
	m := &masker{}
	for _, s := range secrets {
		for _, form := range forms(s) {
			switch {
			case len(form) >= wordy && len(s) >= wordy:
				long = append(long, form)
			case len(form) >= shortest:
				m.short = append(m.short, form)
			}
		}
	}
	byLength := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) }
	slices.SortFunc(long, byLength) // if several begin at one place, the first in the list counts
	slices.SortFunc(m.short, byLength)
	pairs := make([]string, 0, 2*len(long))
	for _, form := range slices.Compact(long) {
		pairs = append(pairs, form, Mask)
	}
	m.short = slices.Compact(m.short)
	m.long = strings.NewReplacer(pairs...)
	return m
}

func (m *masker) clean(text string) string {
	text = m.long.Replace(text)
	for _, form := range m.short {
		text = replaceWord(text, form)
	}
	return text
}

// replaceWord masks a word that has neither a letter nor a digit before or after it.
func replaceWord(text, word string) string {
	at := strings.Index(text, word)
	if at < 0 {
		return text
	}
	var b strings.Builder
	rest := text
	var before rune
	for at >= 0 {
		if at > 0 {
			before, _ = utf8.DecodeLastRuneInString(rest[:at])
		}
		after, _ := utf8.DecodeRuneInString(rest[at+len(word):])
		b.WriteString(rest[:at])
		if ofWord(before) || ofWord(after) && len(rest) > at+len(word) {
			b.WriteString(word)
		} else {
			b.WriteString(Mask)
		}
		before, _ = utf8.DecodeLastRuneInString(word)
		rest = rest[at+len(word):]
		at = strings.Index(rest, word)
	}
	b.WriteString(rest)
	return b.String()
}

func ofWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
