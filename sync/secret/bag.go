package secret

import (
	"slices"
	"strings"
	"sync"
)

// Bag has the secrets that an action sends. Its zero value is empty. Its methods can be called from any goroutine, and on nil.
type Bag struct {
	mu     sync.Mutex
	values []string
}

// Add puts a text into the bag.
func (b *Bag) Add(value string) {
	if b == nil || len(value) < shortest {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.values, value) {
		b.values = append(b.values, value)
	}
}

// Clean masks the secrets of the process and those in the bag. It also masks parts of long secrets, because a text may contain only a part.
func (b *Bag) Clean(text string) string { return b.cleaner()(text) }

func (b *Bag) cleaner() func(string) string {
	if b == nil {
		return Clean
	}
	b.mu.Lock()
	values := slices.Clone(b.values)
	b.mu.Unlock()
	if len(values) == 0 {
		return Clean
	}
	var short, long []string
	for _, v := range values {
		if len(v) < 2*block {
			short = append(short, v)
			continue
		}
		long = append(long, v)
		for _, escape := range escapes {
			long = append(long, escape(v))
		}
		long = append(long, inBase64(v)...)
	}
	slices.Sort(long)
	whole, parts := newMasker(short), indexParts(slices.Compact(long))
	return func(text string) string { return parts.mask(whole.clean(Clean(text))) }
}

// block is half of the length from which a part of a long secret is certainly masked, in bytes.
const block = 12

// parts finds parts of secrets in a text. A part of 2*block bytes contains a whole block that begins at a multiple of block, so an index of
// these blocks finds it.
type parts struct {
	secrets []string
	blocks  map[string][]place
}

type place struct{ secret, at int }

// alike bounds the places that are indexed for equal blocks.
const alike = 16

func indexParts(secrets []string) *parts {
	x := &parts{secrets, map[string][]place{}}
	for i, s := range secrets {
		for at := 0; at+block <= len(s); at += block {
			if same := x.blocks[s[at:at+block]]; len(same) < alike {
				x.blocks[s[at:at+block]] = append(same, place{i, at})
			}
		}
	}
	return x
}

// mask masks the parts, and short gaps between two of them.
func (x *parts) mask(text string) string {
	var spans [][2]int
	for at := 0; at+block <= len(text); {
		from, to := at, at
		for _, p := range x.blocks[text[at:at+block]] {
			f, t := x.extent(text, at, p)
			from, to = min(from, f), max(to, t)
		}
		if to == at {
			at++
			continue
		}
		if last := len(spans) - 1; last >= 0 && from-spans[last][1] < 2*block {
			spans[last][1] = to
		} else {
			spans = append(spans, [2]int{from, to})
		}
		at = to
	}
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for _, span := range spans {
		b.WriteString(text[done:span[0]])
		b.WriteString(Mask)
		done = span[1]
	}
	b.WriteString(text[done:])
	return b.String()
}

// extent returns the part of a text that equals the secret around one place.
func (x *parts) extent(text string, at int, p place) (from, to int) {
	s := x.secrets[p.secret]
	from, to = at, at+block
	for n := p.at; n > 0 && from > 0 && text[from-1] == s[n-1]; n-- {
		from--
	}
	for n := p.at + block; n < len(s) && to < len(text) && text[to] == s[n]; n++ {
		to++
	}
	return from, to
}
