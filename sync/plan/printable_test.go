package plan_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func FuzzBounded(f *testing.F) {
	for _, text := range []string{"", "web-0", "東京🙂", strings.Repeat("é", 300), "\xf0\x9f\x99\x82\x82\x82\x82\x82"} {
		f.Add(text, 10)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = 3 + max(0, most%1000)
		got := plan.Bounded(text, most)
		begin := strings.TrimSuffix(got, "…")
		switch {
		case len(text) <= most && got != text:
			t.Errorf("%q is cut to %q", text, got)
		case len(text) > most && (len(got) > most || got == begin || !utf8.ValidString(got)):
			t.Errorf("%q is %q, for %d bytes", text, got, most)
		case utf8.ValidString(text) && (!strings.HasPrefix(text, begin) || len(text) > most && len(got) < most-3):
			t.Errorf("%q is cut to %q", text, got)
		}
	})
}

func TestAListSaysHowMuchItLeavesOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("🙂", 100)
	for want, got := range map[string]string{
		"":                  plan.AtMost(nil, 2),
		"a, b":              plan.AtMost([]string{"a", "b"}, 2),
		"a, b and 2 more":   plan.AtMost([]string{"a", "b", "c", "d"}, 2),
		long[:248] + "…, b": plan.AtMost([]string{long, "b"}, 2),
		"A b; c d":          plan.SentencesAtMost([]string{"A b", "c d"}, 2),
		"A b; and 1 more":   plan.SentencesAtMost([]string{"A b", "c d"}, 1),
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
