package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

type spec = v1alpha1.VmGroupSpec

func of(n int32) *intstr.IntOrString {
	v := intstr.FromInt32(n)
	return &v
}

func in(n int32) *int32 { return &n }

// each changes every member.
func each(f func(*plan.VM)) func(*plan.Observed) {
	return func(o *plan.Observed) {
		for i := range o.State.VMs {
			f(&o.State.VMs[i])
		}
	}
}

// slowly lets only those guests boot for which boots returns true.
func (s *story) slowly(boots func(m plan.VM) bool) {
	s.boot = func(o *plan.Observed, a plan.Action) {
		if a.Op != plan.PowerOn && a.Op != plan.Reset {
			return
		}
		for i := range o.State.VMs {
			if m := &o.State.VMs[i]; m.MoRef == a.MoRef && !boots(*m) {
				m.Tools, m.IPs = false, nil
			}
		}
	}
}

// changeStories are about members that change: one scenario each.
var changeStories = map[string]func(*story){
	"resize up": func(s *story) {
		s.happens("three members are applied; their template allows CPUs to be added", nothing)
		each(func(m *plan.VM) { m.CPUHotAdd = true })(&s.o)
		s.happens("4 CPUs instead of 2: added while they run", edit(func(g *spec) { g.CPU = 4 }))
		s.happens("8 GiB instead of 4: memory cannot be added, so each is power-cycled; with maxUnavailable 0 a fourth helps out",
			edit(func(g *spec) { g.Memory = 8 }))
		s.happens("16 GiB, and one can be unavailable: no helper is needed", edit(func(g *spec) {
			g.Memory, g.Update.MaxUnavailable = 16, of(1)
		}))
	},
	"reservations": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("they get a reservation, and more shares: set while they run", edit(func(g *spec) {
			g.Hardware.CPUReservationMHz, g.Hardware.CPUShares = 500, new(intstr.FromString("High"))
		}))
		s.happens("8 GiB, of which all is reserved: one power cycle each for both", edit(func(g *spec) {
			g.Memory, g.Hardware.ReserveAllMemory, g.Update.MaxUnavailable = 8, new(true), of(1)
		}))
		s.happens("none of that, but by new clones", edit(func(g *spec) { g.Hardware, g.Update.Resize = v1alpha1.Hardware{}, v1alpha1.ResizeReplace }))
	},
	"resize down": func(s *story) {
		s.happens("three members are applied; one can be unavailable", edit(func(g *spec) { g.Update.MaxUnavailable = of(1) }))
		s.happens("1 CPU instead of 2: nothing can be taken from a VM that runs", edit(func(g *spec) { g.CPU = 1 }))
		s.happens("2 GiB instead of 4, by new clones", edit(func(g *spec) { g.Memory, g.Update.Resize = 2, v1alpha1.ResizeReplace }))
		s.happens("64 CPUs: vCenter refuses them, so that Auto replaces the members", func(o *plan.Observed) {
			edit(func(g *spec) { g.CPU, g.Update.Resize = 64, "" })(o)
			o.State.VMs[0].Power = plan.PoweredOff
			o.Pending = map[string]plan.Pending{o.State.VMs[0].Name: {Op: plan.Reconfigure, Ordinal: o.State.VMs[0].Ordinal, State: plan.Due,
				Fault: plan.Fault{Reason: plan.ReasonResizeRefused, NeedsOperator: true, Message: "vCenter refuses 64 CPUs for this VM"}}}
		})
	},
	"clones in vain": func(s *story) {
		s.happens("three members are applied", nothing)
		s.boot = func(o *plan.Observed, a plan.Action) {
			if a.Op == plan.Clone {
				o.State.VMs[len(o.State.VMs)-1].Revision = "0ddba11000"
			}
		}
		s.happens("another template, but what is cloned from it has another revision: the update stops with the first clone", edit(func(g *spec) { g.Template = "debian" }))
		s.happens("a fourth replica: an autoscaler's edit is no reason to try again", s.scale(4))
		s.boot = nil
		s.happens("any other edit is one: clones have the revision that they should", edit(func(g *spec) { g.Template = "fedora" }))
	},
	"roll with surge": func(s *story) {
		s.happens("three members are applied: ready when the guest has an address, for 20 s", edit(func(g *spec) {
			g.Readiness.Check, g.Update.MinReadySeconds, g.Update.MaxSurge, g.Update.MaxUnavailable = v1alpha1.ReadyGuestIP, 20, of(1), of(0)
		}))
		s.happens("another template", edit(func(g *spec) { g.Template = "ubuntu-26.04" }))
		s.happens("the template is republished under its name: it is reported, and nothing is done", func(o *plan.Observed) {
			each(func(m *plan.VM) { m.Fingerprint = "aaaaaaaaaa" })(o)
			o.State.Template.Fingerprint = "bbbbbbbbbb"
		})
		s.happens("onTemplateChange: Replace, and two more at once", edit(func(g *spec) {
			g.Update.OnTemplateChange, g.Update.MaxSurge, g.Update.MinReadySeconds = v1alpha1.TemplateChangeReplace, of(3), 0
		}))
	},
	"roll that fails and is rolled back": func(s *story) {
		s.slowly(func(m plan.VM) bool { return m.Revision == plan.Revision(&spec{Template: "ubuntu"}) })
		s.happens("three members are applied; 600 s for an update to make progress", edit(func(g *spec) {
			g.Readiness.Check, g.Update.ProgressDeadlineSeconds = v1alpha1.ReadyToolsRunning, in(600)
		}))
		s.happens("another template, whose guests never come up: it is restarted once, then the update stops", edit(func(g *spec) { g.Template = "broken" }))
		s.happens("the spec is edited back", edit(func(g *spec) { g.Template = "ubuntu" }))
	},
	"canary": func(s *story) {
		s.happens("four members are applied", s.scale(4))
		s.happens("another template, for one member", edit(func(g *spec) { g.Template, g.Update.Canary = "ubuntu-26.04", of(1) }))
		s.happens("for half of them", edit(func(g *spec) {
			half := intstr.FromString("50%")
			g.Update.Canary = &half
		}))
		s.happens("scaled to 5 during the update: the new one is of the new template", s.scale(5))
		s.happens("scaled to 7", s.scale(7))
		s.happens("back to 4: two of the new template and two of the old one are left", s.scale(4))
		s.happens("paused, and one is deleted by an operator: it is recreated", func(o *plan.Observed) {
			edit(func(g *spec) { g.Update.Canary, g.Update.Paused = nil, true })(o)
			drop(o.State.VMs[0].Ordinal)(o)
		})
		s.happens("for all of them, by hand: OnDelete, and one is named", func(o *plan.Observed) {
			edit(func(g *spec) {
				g.Update.Paused, g.Update.Strategy = false, v1alpha1.UpdateOnDelete
				g.Replace = []v1alpha1.Replacement{{Name: o.State.VMs[0].Name, MoRef: o.State.VMs[0].MoRef}}
			})(o)
		})
		s.happens("RollingUpdate", edit(func(g *spec) { g.Update.Strategy = "" }))
	},
	"canary taken back": func(s *story) {
		s.happens("four members are applied", s.scale(4))
		s.happens("another template, for one member", edit(func(g *spec) { g.Template, g.Update.Canary = "ubuntu-26.04", of(1) }))
		s.happens("back: the canary is replaced", edit(func(g *spec) { g.Template = "ubuntu" }))
		s.happens("more memory, for half of them, within the VM", edit(func(g *spec) { g.Memory, g.Update.Canary, g.Update.MaxUnavailable = 8, of(2), of(1) }))
		s.happens("back, and forward again at once: the canary holds", func(o *plan.Observed) {
			edit(func(g *spec) { g.Memory = 4 })(o)
			o.Group.Status = planner.Make(*o).Status
			edit(func(g *spec) { g.Memory = 8 })(o)
		})
		s.happens("back", edit(func(g *spec) { g.Memory = 4 }))
	},
	"two canaries of three, and the way back": func(s *story) {
		s.happens("three members are applied, none more during updates", edit(func(g *spec) { g.Replicas, g.Update.MaxSurge, g.Update.MaxUnavailable = in(3), of(0), of(1) }))
		s.happens("another template, for two members", edit(func(g *spec) { g.Template, g.Update.Canary = "ubuntu-26.04", of(2) }))
		s.happens("yet another one", edit(func(g *spec) { g.Template, g.Update.Canary = "ubuntu-26.10", of(1) }))
		s.happens("back to the first, and paused", edit(func(g *spec) { g.Template, g.Paused = "ubuntu", true }))
		s.happens("no longer paused: all that were tried are replaced", edit(func(g *spec) { g.Paused = false }))
	},
	"disks": func(s *story) {
		s.happens("two members are applied, each with a disk", edit(func(g *spec) {
			g.Replicas, g.Disks = in(2), []v1alpha1.Disk{{Name: "data", SizeGiB: 10}}
		}))
		s.happens("a second disk, and the first one grows: they keep running", edit(func(g *spec) {
			g.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 20}, {Name: "log", SizeGiB: 5}}
		}))
		s.happens("the template's own disk grows, under a snapshot of web-1", func(o *plan.Observed) {
			edit(func(g *spec) { g.RootDisk = &v1alpha1.RootDisk{SizeGiB: 40} })(o)
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.SetDisks, Ordinal: 1, MoRef: o.State.VMs[1].MoRef, State: plan.BackingOff,
				Fault: plan.Fault{Reason: "DiskHeldBySnapshot", NeedsOperator: true, Message: "The disks of web-1 cannot grow while it has snapshots: remove them."}}}
		})
		s.happens("the snapshot is removed", func(o *plan.Observed) { o.Pending = nil })
		s.happens("the log disk on a storage policy of its own: they are replaced", edit(func(g *spec) { g.Disks[1].StoragePolicy = "gold" }))
		s.happens("a spec with a smaller disk gets around the CRD's rules", edit(func(g *spec) { g.Disks[0].SizeGiB = 10 }))
	},
	"persistent disks": func(s *story) {
		s.happens("two members are applied, each with a disk of its ordinal", edit(func(g *spec) {
			g.Replicas, g.Disks = in(2), []v1alpha1.Disk{{Name: "data", SizeGiB: 10, Persistent: true}}
		}))
		s.happens("another template: one after the other, and never one more", edit(func(g *spec) { g.Template = "ubuntu-26.04" }))
		s.happens("the disk of web-1 is in another VM", func(o *plan.Observed) {
			drop(1)(o)
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.SetDisks, Ordinal: 1, State: plan.BackingOff,
				Fault: plan.Fault{Reason: "DiskInUse", NeedsOperator: true, Message: "The disk disk-1-data is in the VM vm-7: detach it there."}}}
		})
		s.happens("it is detached there", func(o *plan.Observed) { o.Pending = nil })
		s.happens("scaled to 1: the disk stays", s.scale(1))
		s.happens("scaled to 2: it is attached again", s.scale(2))
		s.happens("scaled to 1, and the disk goes", func(o *plan.Observed) {
			edit(func(g *spec) { g.Disks[0].Retention.WhenScaled = v1alpha1.RetentionDelete })(o)
			s.scale(1)(o)
		})
	},
	"heal": func(s *story) {
		ill := map[string]bool{}
		s.slowly(func(m plan.VM) bool { return !ill[m.MoRef] })
		sicken := func(ordinals ...int32) func(*plan.Observed) {
			return func(o *plan.Observed) {
				for _, n := range ordinals {
					change(n, func(m *plan.VM) { m.Tools, m.IPs, ill[m.MoRef] = false, nil, true })(o)
				}
			}
		}
		s.happens("five members are applied: ready with running Tools, 300 s to become so", func(o *plan.Observed) {
			s.scale(5)(o)
			o.Group.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: in(300)}
		})
		s.happens("the guest of web-1 does not come up after a power-on: restarted, then replaced", sicken(1))
		s.happens("three guests do not come up: 40% are 2", sicken(2, 3, 4))
		s.happens("one recovers: healing continues", change(2, func(m *plan.VM) { m.Tools, ill[m.MoRef] = true, false }))
		s.happens("healing.action None, and one does not come up", func(o *plan.Observed) {
			edit(func(g *spec) { g.Healing.Action = v1alpha1.HealNone })(o)
			sicken(0)(o)
		})
	},
	"probe": func(s *story) {
		say := func(c plan.Conclusion, ordinals ...int32) func(*plan.Observed) {
			return func(o *plan.Observed) {
				of := maps.Clone(o.Answers.Of)
				for _, vm := range o.State.VMs {
					if slices.Contains(ordinals, vm.Ordinal) {
						of[vm.MoRef] = plan.Answer{Address: plan.AskedAddress(vm.IPs), Concluded: c, Failure: "HTTP status 503"}
					}
				}
				o.Answers.Of = of
			}
		}
		s.happens("three members are applied that must answer GET /ready", func(o *plan.Observed) {
			o.Group.Spec.Readiness = v1alpha1.Readiness{HTTPGet: &v1alpha1.HTTPGet{Port: 8080, Path: "/ready"}, TimeoutSeconds: in(300)}
		})
		s.happens("web-1 answers 503: restarted", say(plan.Silent, 1))
		s.happens("all fail at once: the path is suspected", func(o *plan.Observed) {
			say("", 0, 1, 2)(o)
			o.Answers.Suppressed = true
		})
		s.happens("another template waits", edit(func(g *spec) { g.Template = "debian" }))
		s.happens("all answer again: the roll begins", func(o *plan.Observed) {
			say(plan.Answering, 0, 1, 2)(o)
			o.Answers.Suppressed = false
		})
		s.happens("the server is restarted without --probe-networks, and the group scaled to 4", func(o *plan.Observed) {
			o.Answers = plan.Answers{NoneAllowed: true}
			s.scale(4)(o)
		})
		s.happens("--probe-networks has another network", func(o *plan.Observed) {
			of := map[string]plan.Answer{}
			for _, vm := range o.State.VMs {
				of[vm.MoRef] = plan.Answer{Address: plan.AskedAddress(vm.IPs), Refused: true}
			}
			o.Answers = plan.Answers{Of: of}
		})
		s.happens("the probe is removed", edit(func(g *spec) { g.Readiness.HTTPGet = nil }))
	},
	"mass loss suppressed": func(s *story) {
		s.happens("six members are applied", s.scale(6))
		var lost []plan.VM
		s.happens("four vanish from the inventory at once: a privilege might have been lost, so none is recreated", func(o *plan.Observed) {
			lost = append(lost, o.State.VMs[:4]...)
			o.State.VMs = append([]plan.VM(nil), o.State.VMs[4:]...)
		})
		s.happens("vCenter confirms that they are gone", func(o *plan.Observed) {
			for _, m := range lost {
				o.State.Gone = append(o.State.Gone, plan.Gone{MoRef: m.MoRef})
			}
		})
		s.happens("the hosts of three are cut off: they are not gone, and nothing is done", func(o *plan.Observed) {
			for i := range o.State.VMs[:3] {
				o.State.VMs[i].Reachable, o.State.VMs[i].Unreachable, o.State.VMs[i].Host = false, "disconnected", "esx-3"
			}
		})
	},
	"shrink with protection": func(s *story) {
		s.happens("five members are applied; web-4 is protected, web-1 is to go first", func(o *plan.Observed) {
			s.scale(5)(o)
			o.Group.Spec.ScaleIn = v1alpha1.ScaleIn{Protected: []string{"web-4"}, Remove: []string{"web-1"}}
		})
		s.happens("web-0 is unhealthy, and 2 are to stay", func(o *plan.Observed) {
			s.scale(2)(o)
			change(0, func(m *plan.VM) { m.Power = plan.PoweredOff })(o)
		})
		s.happens("one is to stay: the protected one", s.scale(1))
		s.happens("none is to stay", s.scale(0))
		s.happens("three again, and the oldest go first", func(o *plan.Observed) {
			s.scale(3)(o)
			o.Group.Spec.ScaleIn = v1alpha1.ScaleIn{Order: v1alpha1.ScaleInOldest}
		})
		s.happens("web-0 is replaced, as asked", func(o *plan.Observed) {
			edit(func(g *spec) { g.Replace = []v1alpha1.Replacement{{Name: "web-0", MoRef: o.State.VMs[0].MoRef}} })(o)
		})
		s.happens("scaled to 1", s.scale(1))
	},
	"retain": func(s *story) {
		s.o.Group.Spec.Adopt = []string{"/DC0/vm/legacy/db"}
		s.o.State.Candidates = []plan.Candidate{{Entry: "/DC0/vm/legacy/db", MoRef: "vm-77", Name: "db", Folder: "group-v9", Ordinal: -1}}
		s.happens("two members are applied, one of them adopted; Retain", func(o *plan.Observed) {
			s.scale(2)(o)
			o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		})
		s.happens("deleted", remove)
	},
	"quarantine and return": func(s *story) {
		s.happens("three members are applied; removed ones are kept for 10 minutes", edit(func(g *spec) { g.Deletion.QuarantineSeconds = 600 }))
		s.patience = time.Minute
		s.happens("scaled to 1", s.scale(1))
		s.happens("scaled to 2 again: web-1 comes back", s.scale(2))
		s.happens("another template: the old ones are kept", edit(func(g *spec) { g.Template = "ubuntu-26.04" }))
		s.happens("edited back: they come back, and the new ones are kept", edit(func(g *spec) { g.Template = "ubuntu" }))
		s.patience = time.Hour
		s.happens("10 minutes pass", nothing)
		s.patience = time.Minute
		s.happens("scaled to 1", s.scale(1))
		s.happens("deleted: what is kept is destroyed at once", remove)
	},
	"pause": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("paused, scaled to 4, and an operator deletes web-1", func(o *plan.Observed) {
			s.scale(4)(o)
			o.Group.Spec.Paused = true
			drop(1)(o)
		})
		for _, step := range planner.Forecast(s.o).Steps {
			fmt.Fprintf(&s.diary, "    /plan: %d %-12s %-8s %s\n", step.Round, step.Op, step.Key, step.Reason)
		}
		s.happens("deleted while paused", remove)
		s.happens("no longer paused", edit(func(g *spec) { g.Paused = false }))
	},
	"adopt": func(s *story) {
		entries := []string{"/DC0/vm/legacy/db-a", "vm-78", "/DC0/vm/legacy/web-4", "/DC0/vm/legacy/typo"}
		s.o.Group.Spec.Adopt = entries
		s.o.State.Candidates = []plan.Candidate{
			{Entry: entries[0], MoRef: "vm-77", Name: "db-a", Folder: "group-v9", Ordinal: -1},
			{Entry: entries[1], MoRef: "vm-78", Name: "old-web-2", Folder: "group-v9", Ordinal: 2},
			{Entry: entries[2], MoRef: "vm-79", Name: "web-4", Folder: "group-v9", Ordinal: -1},
			{Entry: entries[3], Ordinal: -1, Fault: &plan.Fault{Reason: "AdoptNotFound", NeedsOperator: true, Message: "there is no VM at this path: correct or remove it"}},
		}
		s.happens("five members, four of them from VMs that exist; one path is mistaken", s.scale(5))
		s.happens("the path is removed: that member is cloned", func(o *plan.Observed) {
			edit(func(g *spec) { g.Adopt = g.Adopt[:3] })(o)
			o.State.Candidates = o.State.Candidates[:3]
		})
		s.happens("another one is to be adopted, and none is missing", func(o *plan.Observed) {
			edit(func(g *spec) { g.Adopt = append(g.Adopt[:3:3], "vm-80") })(o)
			o.State.Candidates = append(o.State.Candidates[:3:3], plan.Candidate{Entry: "vm-80", MoRef: "vm-80", Name: "mine", Folder: "group-v9", Ordinal: -1})
		})
		s.happens("scaled to 6", s.scale(6))
		s.happens("an adopted one is destroyed by an operator: it is cloned again", drop(0))
	},
}
