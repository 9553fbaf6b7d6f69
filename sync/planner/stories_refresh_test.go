package planner_test

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// passes lets time pass until a time of day, in UTC.
func passes(until string) func(*plan.Observed) {
	return func(o *plan.Observed) {
		at, err := time.Parse("15:04", until)
		if err != nil {
			panic(err)
		}
		for o.Now = o.Now.Truncate(time.Minute); o.Now.Hour() != at.Hour() || o.Now.Minute() != at.Minute(); {
			o.Now = o.Now.Add(time.Minute)
		}
	}
}

// refreshStories are about members that are replaced for their age, and about windows.
var refreshStories = map[string]func(*story){
	"windows": func(s *story) {
		s.happens("three members are applied at 12:00 UTC on a Saturday; updates can begin from 01:00 to 03:00 in Berlin, which is 00:00 to 02:00 UTC",
			edit(func(g *spec) {
				g.Update.Windows = []v1alpha1.Window{{Start: "01:00", DurationSeconds: 7200, TimeZone: "Europe/Berlin"}}
				g.Update.MaxSurge, g.Update.MaxUnavailable, g.Update.MinReadySeconds = of(0), of(1), 300
			}))
		s.happens("another template: it waits", edit(func(g *spec) { g.Template = "ubuntu-26.04" }))
		for _, step := range planner.Forecast(s.o).Steps {
			fmt.Fprintf(&s.diary, "    /plan: %d after %-9s %-12s %-8s %s\n", step.Round, step.After, step.Op, step.Key, step.Reason)
		}
		s.happens("scaled to 4, and an operator deletes web-0: both are cloned from the new template", func(o *plan.Observed) {
			s.scale(4)(o)
			drop(0)(o)
		})
		s.happens("more CPUs, which can be added: at once where that is all, even now", func(o *plan.Observed) {
			each(func(m *plan.VM) { m.CPUHotAdd = true })(o)
			edit(func(g *spec) { g.CPU = 4 })(o)
		})
		s.happens("spec.replace names web-1: it goes at once", func(o *plan.Observed) {
			edit(func(g *spec) { g.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "new-web-1"}} })(o)
		})
		s.happens("the night comes", passes("00:00"))
		s.happens("01:50 UTC: less memory, which needs power cycles; a few are begun before the window closes", func(o *plan.Observed) {
			passes("01:50")(o)
			edit(func(g *spec) { g.Memory = 2 })(o)
		})
	},
	"refresh": func(s *story) {
		s.happens("three members are applied; they become 10 hours old", edit(func(g *spec) {
			g.Update.MaxAgeSeconds, g.Update.MaxSurge, g.Update.MaxUnavailable, g.Update.MinReadySeconds = in(36000), of(1), of(0), 30
		}))
		for _, step := range planner.Forecast(s.o).Steps {
			fmt.Fprintf(&s.diary, "    /plan: %d %-12s %-8s %s\n", step.Round, step.Op, step.Key, step.Reason)
		}
		s.patience = 8*time.Hour + 36*time.Minute
		s.happens("hours pass: each goes at its own time", each(func(m *plan.VM) { m.Created = m.Created.Add(-30 * time.Minute) }))
		s.patience = 15 * time.Minute
		s.happens("one was made by an older server, and has no time: it stays; the others are much too old, and are replaced one by one", func(o *plan.Observed) {
			each(func(m *plan.VM) { m.Created = m.Created.Add(-100 * time.Hour) })(o)
			o.State.VMs[0].Created = time.Time{}
		})
		s.happens("the updates are held, and they are too old again: nothing is done", func(o *plan.Observed) {
			edit(func(g *spec) { g.Update.Paused = true })(o)
			each(func(m *plan.VM) { m.Created = m.Created.Add(-100 * time.Hour) })(o)
		})
		s.slowly(func(m plan.VM) bool { return false })
		s.happens("no longer, but new guests never come up: the refresh stops with one extra", edit(func(g *spec) {
			g.Update.Paused, g.Readiness.Check, g.Healing.Action = false, v1alpha1.ReadyToolsRunning, v1alpha1.HealNone
			g.Update.ProgressDeadlineSeconds = in(600)
		}))
	},
	"hold": func(s *story) {
		s.happens("three members are applied; annotations can hold them for 20 minutes", edit(func(g *spec) {
			g.Deletion.HoldTimeoutSeconds, g.Update.MaxSurge, g.Update.MaxUnavailable = 1200, of(1), of(0)
		}))
		s.patience = time.Minute
		s.happens("two writers hold web-2, one mistypes", func(o *plan.Observed) {
			annotate("node-drain", "web-2/new-web-2")(o)
			annotate("db", "web-2/new-web-2")(o)
			annotate("typo", "web-2:new-web-2")(o)
		})
		s.happens("another template: with a fourth member, web-2 is to go, and waits; no more than that", edit(func(g *spec) { g.Template = "ubuntu-26.04" }))
		s.happens("the mistyped one is taken away, and one of the writers is done", func(o *plan.Observed) {
			annotate("typo", "")(o)
			annotate("db", "")(o)
		})
		s.happens("both are done: the update continues", annotate("node-drain", ""))
		s.happens("the new web-2 is held, and scaled to 1", func(o *plan.Observed) {
			change(2, func(m *plan.VM) { annotate("node-drain", "web-2/"+m.MoRef)(o) })(o)
			s.scale(1)(o)
		})
		s.patience = 30 * time.Minute
		s.happens("no operator removes the annotation: its time is over", nothing)
		s.patience = time.Minute
		s.happens("the last one is held, and the group is deleted", func(o *plan.Observed) {
			annotate("node-drain", o.State.VMs[0].Name+"/"+o.State.VMs[0].MoRef)(o)
			remove(o)
		})
		s.happens("it is done", annotate("node-drain", ""))
	},
}
