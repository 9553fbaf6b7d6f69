package pace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Number is how many actions of one kind (or of all, without one) may run at once; for a source or target, how many heavy ones.
type Number struct {
	Kind           Kind
	Source, Target string
	// Size is the number, Most its bound, and Used how many run.
	Size, Most, Used int
	// Why says why it is that number.
	Why string
}

// Numbers are the numbers now: those of the kinds, then those of sources and targets.
func (p *Pace) Numbers() []Number {
	all := make([]Number, 0, len(p.windows))
	for k, x := range p.windows {
		all = append(all, p.number(k, x))
	}
	slices.SortFunc(all, func(a, b Number) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Target, b.Target), cmp.Compare(rank(a.Kind), rank(b.Kind)))
	})
	return all
}

// Size is how many actions of a kind may run at once now.
func (p *Pace) Size(k Kind) int { return p.window(key{kind: k}).size }

// Hinders returns the numbers that keep such work from beginning now: the one for all kinds, without one, first.
func (p *Pace) Hinders(w Work) (all []Number) {
	if p.used >= p.most {
		all = append(all, Number{Size: p.most, Most: p.most, Used: p.Used(), Why: "--slots permits no more"})
	}
	for _, k := range w.keys() {
		if x := p.windows[k]; x != nil && x.used >= x.size {
			all = append(all, p.number(k, x))
		}
	}
	return all
}

func rank(k Kind) int { return slices.Index(Kinds, k) }

func (p *Pace) number(k key, x *window) Number {
	return Number{Kind: k.kind, Source: k.source, Target: k.target, Size: x.size / x.scale, Most: x.most / x.scale,
		Used: (x.used + x.scale - 1) / x.scale, Why: x.why()}
}

func (x *window) why() string {
	s := &x.shrunk
	switch {
	case s.at.IsZero() && x.size >= x.most:
		return "--slots permits no more"
	case s.at.IsZero() && x.size == x.begin:
		return "it begins with that"
	case s.at.IsZero():
		return "it grows, because vCenter starts tasks at once"
	}
	since := fmt.Sprintf("%s at %s", s.why, s.at.UTC().Format("2006-01-02 15:04 UTC"))
	switch {
	case x.size >= x.most:
		return "--slots permits no more; it was " + fmt.Sprint(s.to/x.scale) + " because " + since
	case x.size > s.to:
		return "it grows again, from " + fmt.Sprint(s.to/x.scale) + ", because " + since
	}
	return since
}

// inSeconds is a duration for people.
func inSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
