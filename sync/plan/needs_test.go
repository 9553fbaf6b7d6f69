package plan

import (
	"strings"
	"testing"
)

func unlikely(gib int32) string {
	seen, advice := UnlikelyMemory(gib)
	return strings.TrimSuffix(seen+": "+advice, ": ")
}

func TestNeedsAreSaidInGiBAndAMistakenUnitIsSuspected(t *testing.T) {
	for _, c := range []struct {
		needs             Needs
		each, all, doubts string
	}{
		{Needs{CPU: 1, MemoryGiB: 4, Members: 1}, "1 CPU, 4 GiB of memory", "1 member: 1 CPU, 4 GiB of memory", ""},
		{Needs{CPU: 2, MemoryGiB: 4096, DisksGiB: 10, Members: 3, Standby: 1, Extra: 1}, "2 CPUs, 4096 GiB (4 TiB) of memory, 10 GiB of disks beside the template's",
			"3 members and 1 on standby: 8 CPUs, 16384 GiB (16 TiB) of memory, 40 GiB of disks beside the template's; an update may add 1 more",
			"spec.memory is in GiB, so 4096 is 4 TiB for each member: if you mean MB, write 4"},
		{Needs{CPU: 2, MemoryGiB: 4, DisksGiB: 10, TemplateDisksGiB: 20, Members: 2}, "2 CPUs, 4 GiB of memory, 30 GiB of disks", "2 members: 4 CPUs, 8 GiB of memory, 60 GiB of disks", ""},
		{Needs{CPU: 2, MemoryGiB: 512, Members: 1}, "2 CPUs, 512 GiB of memory", "1 member: 2 CPUs, 512 GiB of memory", "spec.memory is in GiB, so 512 is 0.5 TiB for each member: if you mean MB, write 1"},
		{Needs{CPU: 2, MemoryGiB: 384, Members: 0}, "2 CPUs, 384 GiB of memory", "0 members: 0 CPUs, 0 GiB of memory", ""},
		{Needs{CPU: 2, MemoryGiB: 700, Members: 1}, "2 CPUs, 700 GiB of memory", "1 member: 2 CPUs, 700 GiB of memory", ""},
	} {
		if each, all, doubts := c.needs.Each(), c.needs.All(), unlikely(c.needs.MemoryGiB); each != c.each || all != c.all || doubts != c.doubts {
			t.Errorf("%+v: %q, %q, %q; want %q, %q, %q", c.needs, each, all, doubts, c.each, c.all, c.doubts)
		}
	}
}
