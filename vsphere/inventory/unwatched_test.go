package inventory

import (
	"slices"
	"testing"
)

func TestOnlyWhatTheStreamDidNotReportIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(machine(web.UID, 0), machine(web.UID, 1))
	seen := watched{entered: map[string]bool{refOf(0): true}, checked: map[string]bool{}}
	for ref := range s.objects.places.byRef {
		seen.entered[ref] = true
	}
	unwatched := func() (refs []string) {
		for _, ref := range s.unwatched(seen) {
			refs = append(refs, ref.Value)
		}
		slices.Sort(refs)
		return refs
	}
	for range 2 {
		if got := unwatched(); !slices.Equal(got, []string{refOf(1)}) {
			t.Fatalf("the unwatched objects are %v, want %s alone", got, refOf(1))
		}
	}
	seen.checked[refOf(1)] = true
	if got := unwatched(); got != nil {
		t.Errorf("the unwatched objects are %v after %s was read; want none", got, refOf(1))
	}
	clear(seen.checked)
	if got := unwatched(); !slices.Equal(got, []string{refOf(1)}) {
		t.Errorf("the unwatched objects are %v after the records of reads were cleared; want %s", got, refOf(1))
	}
	seen.entered[refOf(1)] = true
	if got := unwatched(); got != nil || len(s.unreported.refs) != 0 {
		t.Errorf("the unwatched objects are %v, and %v are still expected; want none, because the stream reported all", got, s.unreported.refs)
	}
	delete(seen.entered, refOf(0))
	s.unreported.expect(refOf(0)) // as follow does with VMs that left the stream
	if got := unwatched(); !slices.Equal(got, []string{refOf(0)}) {
		t.Errorf("the unwatched objects are %v; want %s, which left the stream", got, refOf(0))
	}
}
