package vsphere

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The log must show why a VM was destroyed.
func TestTheLogLineOfAnActionHasItsReason(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		var log bytes.Buffer
		p.log = zerolog.New(&log)
		p.do(plan.Action{Op: plan.CreateFolder, Reason: "members need a folder"})
		p.fault(plan.Action{Op: plan.PowerOff, Key: "web-0", MoRef: "vm-none", Reason: "scale-in: from 3 members to 2"})
		want := []map[string]any{
			{"level": "info", "group": "shop/web", "op": "CreateFolder", "reason": "members need a folder"},
			{"level": "warn", "group": "shop/web", "op": "PowerOff", "vm": "web-0", "reason": "scale-in: from 3 members to 2"},
		}
		for lines := json.NewDecoder(&log); len(want) > 0; want = want[1:] {
			var line map[string]any
			must.Succeed(t, lines.Decode(&line))
			for key, value := range want[0] {
				if line[key] != value {
					t.Errorf("%v has %s %q, want %q", line, key, line[key], value)
				}
			}
			if _, is := line["durationSeconds"].(float64); !is {
				t.Errorf("%v has no durationSeconds", line)
			}
		}
	})
}
