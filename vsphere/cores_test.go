package vsphere

import (
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

func TestCoresPerSocketDivideTheCPUs(t *testing.T) {
	for _, c := range []struct{ template, cpu, want int32 }{
		{1, 3, 0}, {2, 4, 0}, {2, 3, 1}, {4, 6, 2}, {4, 2, 2}, {8, 12, 4}, {0, 5, 0},
	} {
		v := &VCenter{}
		template := vmRef("vm-1")
		v.coresBook.known = map[types.ManagedObjectReference]coresEntry{template: {c.template, time.Now().Add(time.Hour)}}
		got, err := v.cores(t.Context(), template, c.cpu)
		if err != nil {
			t.Fatal(err)
		}
		if got == nil && c.want != 0 || got != nil && *got != c.want {
			t.Errorf("template %d, cpu %d: got %v, want %d", c.template, c.cpu, got, c.want)
		}
	}
}
