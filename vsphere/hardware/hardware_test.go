package hardware

import "testing"

func TestCoresPerSocketDivideTheCPUs(t *testing.T) {
	for _, c := range []struct{ template, cpu, want int32 }{
		{1, 3, 0}, {2, 4, 0}, {2, 3, 1}, {4, 6, 2}, {4, 2, 2}, {8, 12, 4}, {0, 5, 0},
	} {
		got := Cores(c.template, c.cpu)
		if got == nil && c.want != 0 || got != nil && *got != c.want {
			t.Errorf("template %d, cpu %d: got %v, want %d", c.template, c.cpu, got, c.want)
		}
	}
}
