package planner_test

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func nothing(*plan.Observed) {}

// lifeStories are about members that come, are kept, and go.
var lifeStories = map[string]func(*story){
	"a whole life": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("scaled to 5", s.scale(5))
		s.happens("scaled to 2", s.scale(2))
		s.happens("scaled to 0", s.scale(0))
		s.happens("scaled to 1", s.scale(1))
		s.happens("deleted", remove)
	},
	"what operators do": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("an operator deletes web-1", drop(1))
		s.happens("an operator powers web-0 off", change(0, func(m *plan.VM) { m.Power = plan.PoweredOff }))
		s.happens("an operator renames web-2", change(2, func(m *plan.VM) { m.Name = "mine" }))
		s.happens("the host of web-0 is cut off", change(0, func(m *plan.VM) { m.Reachable, m.Unreachable = false, "disconnected" }))
		s.happens("scaled to 2: the unreachable one would go first, and is skipped", s.scale(2))
		s.happens("the host is back, all are well: the highest ordinal goes", change(0, func(m *plan.VM) { m.Reachable = true }))
		s.happens("VMware Tools fall silent in web-1", change(1, func(m *plan.VM) { m.Tools, m.Reported = false, true }))
		s.happens("they run again", change(1, func(m *plan.VM) { m.Tools = true }))
		s.happens("web-1 vanishes from the inventory, and is not confirmed gone: no other is cloned", func(o *plan.Observed) { drop(1)(o); o.State.Gone = nil })
	},
	"a question": func(s *story) {
		const asks = "This virtual machine might have been moved or copied. (choices: Cancel, I Moved It, I Copied It)"
		s.happens("three members are applied", nothing)
		s.happens("web-1 asks as it is powered on", func(o *plan.Observed) {
			change(1, func(m *plan.VM) { m.Power, m.Question = plan.PoweredOff, asks })(o)
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.PowerOn, Ordinal: 1, MoRef: "new-web-1", State: plan.Running}}
		})
		s.happens("scaled to 2: the one that asks would go first, and is skipped", s.scale(2))
		s.happens("the server was restarted, and knows nothing of the power-on", func(o *plan.Observed) { o.Pending = nil; s.scale(3)(o) })
		s.happens("an operator answers", change(1, func(m *plan.VM) { m.Power, m.Question = plan.PoweredOn, "" }))
		s.happens("the power-on of web-2 is stalled for no visible reason", func(o *plan.Observed) {
			change(2, func(m *plan.VM) { m.Power = plan.PoweredOff })(o)
			o.Pending = map[string]plan.Pending{"web-2": {Op: plan.PowerOn, Ordinal: 2, MoRef: "new-web-2", State: plan.Running}}
			o.State.Stalled = map[string]plan.Fault{"web-2": {Reason: plan.ReasonTaskStalled, NeedsOperator: true, Message: "vCenter's task has made no progress for 10 minutes."}}
		})
		s.happens("web-0, which runs, asks; and the group is deleted", func(o *plan.Observed) {
			o.Pending, o.State.Stalled = nil, nil
			change(0, func(m *plan.VM) {
				m.Question = "The guest has locked the CD-ROM door. Disconnect anyway? (choices: Yes, No)"
			})(o)
			remove(o)
		})
		s.happens("an operator answers", change(0, func(m *plan.VM) { m.Question = "" }))
	},
	"faults of several members": func(s *story) {
		template := s.o.State.Template
		s.happens("the template is missing", func(o *plan.Observed) {
			o.State.Template = plan.Template{Datacenter: "DC0", Others: []string{"debian-13", "vm-operator-template"}}
		})
		s.happens("two have that name", func(o *plan.Observed) {
			o.State.Template = plan.Template{Datacenter: "DC0", Paths: []string{"/DC0/vm/a/ubuntu", "/DC0/vm/b/ubuntu"}}
		})
		s.happens("it is there; an unmanaged VM has the name web-1, and web-2 meets a full datastore", func(o *plan.Observed) {
			o.State.Template = template
			o.State.Folder = "group-v7"
			o.Pending = map[string]plan.Pending{
				"web-1": {Op: plan.Clone, Ordinal: 1, State: plan.BackingOff, Fault: plan.Fault{Reason: plan.ReasonNameConflict, NeedsOperator: true,
					Message: "a VM that is not ours has this name: rename /DC0/vm/vm-operator/default/web/web-1"}},
				"web-2": {Op: plan.Clone, Ordinal: 2, State: plan.BackingOff, Fault: plan.Fault{Reason: "DatastoreFull",
					Message: "datastore LocalDS_0 is full"}},
			}
		})
		s.happens("both are out of the way", func(o *plan.Observed) { o.Pending = nil })
		s.happens("vCenter is down", func(o *plan.Observed) {
			o.State.Known, o.State.Fault = false, &plan.Fault{Reason: "VCenterUnreachable", Message: "vCenter cannot be reached: connection refused"}
		})
		s.happens("another vCenter answers", func(o *plan.Observed) { o.State.Known, o.State.Fault, o.State.VCenter = true, nil, "another" })
		s.happens("the first one is back", func(o *plan.Observed) { o.State.VCenter = vcenter })
		s.happens("cpu 0 slipped past the schema", func(o *plan.Observed) { o.Group.Spec.CPU = 0; o.Group.Generation++ })
		s.happens("cpu 4", func(o *plan.Observed) { o.Group.Spec.CPU = 4; o.Group.Generation++ })
		s.happens("a second web-0 turns up", func(o *plan.Observed) {
			second := o.State.VMs[0]
			second.MoRef, second.Name = "vm-666", "web-0 (restored)"
			o.State.VMs = append(o.State.VMs, second)
		})
		s.happens("an operator deletes it in vCenter, and another duplicate turns up that was never on", func(o *plan.Observed) {
			i := slices.IndexFunc(o.State.VMs, func(vm plan.VM) bool { return vm.MoRef == "vm-666" })
			o.State.VMs = slices.Delete(slices.Clone(o.State.VMs), i, i+1)
			o.State.Gone = append(o.State.Gone, plan.Gone{MoRef: "vm-666"})
			third := o.State.VMs[0]
			third.MoRef, third.Name, third.Power = "vm-667", "web-0 (copied)", plan.PoweredOff
			o.State.VMs = append(o.State.VMs, third)
		})
		s.happens("a foreign ConfigMap has the name web-members", func(o *plan.Observed) {
			o.ChildrenWantedSince = map[plan.ChildKey]time.Time{{Kind: plan.KindConfigMap, Name: "web-members"}: o.Now.Add(-time.Minute)}
		})
	},
	"deletion": func(s *story) {
		s.happens("three members are applied", nothing)
		s.happens("deleted while a clone is running, a child exists and the spec is invalid", func(o *plan.Observed) {
			remove(o)
			o.Group.Spec.CPU = 0
			o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {}}
			o.Pending = map[string]plan.Pending{"web-7": {Op: plan.Clone, Ordinal: 7, State: plan.Running}}
		})
		s.happens("the clone has ended; an unmanaged VM is in the folder", func(o *plan.Observed) {
			o.Pending = map[string]plan.Pending{plan.FolderKey: {Op: plan.RemoveFolder, State: plan.BackingOff, Fault: plan.Fault{
				Reason: plan.ReasonFolderHoldsStranger, Message: "the group's folder contains what is not the group's (/DC0/vm/vm-operator/default/web/nosy): move it elsewhere, and the folder is removed"}}}
		})
		s.happens("a lease has passed", func(o *plan.Observed) { o.FinalizingSince = o.Now.Add(-o.Lease) })
	},
	"deletion without vCenter": func(s *story) {
		s.happens("two members are applied", s.scale(2))
		s.happens("the group is deleted while vCenter is down", func(o *plan.Observed) {
			remove(o)
			o.State.Known, o.State.Fault = false, &plan.Fault{Reason: "VCenterUnreachable", Message: "vCenter cannot be reached: connection refused."}
		})
		s.happens("another vCenter answers", func(o *plan.Observed) { o.State.Known, o.State.Fault, o.State.VCenter = true, nil, "another" })
		s.happens("the first one is back, and lacks a setting", func(o *plan.Observed) {
			o.State.VCenter = vcenter
			o.State.FolderUnknown, o.State.Fault = true, &plan.Fault{Reason: "DatacenterAmbiguous", NeedsOperator: true, Message: "there are several datacenters (DC0, DC1): set --datacenter"}
		})
	},
	"one fault of many": func(s *story) {
		lacks := plan.Fault{Reason: "MissingPrivilege", NeedsOperator: true,
			Message: "vCenter's user lacks VirtualMachine.Inventory.CreateFromExisting on /DC0/vm/vm-operator/default/web: grant it."}
		s.happens("no member can be cloned, for one reason", func(o *plan.Observed) {
			o.State.Folder, o.Pending = "group-v7", map[string]plan.Pending{}
			for i := range int32(3) {
				o.Pending[plan.MemberName("web", i)] = plan.Pending{Op: plan.Clone, Ordinal: i, State: plan.BackingOff, Fault: lacks}
			}
		})
		s.happens("the privilege is granted", func(o *plan.Observed) { o.Pending = nil })
		s.happens("web-1 is renamed in vCenter, and cannot be reached", change(1, func(vm *plan.VM) {
			vm.Name, vm.Reachable, vm.Unreachable = "web-broken", false, "disconnected"
		}))
		s.happens("it is reached, and off; its host lacks memory", func(o *plan.Observed) {
			change(1, func(vm *plan.VM) { vm.Reachable, vm.Unreachable, vm.Power = true, "", plan.PoweredOff })(o)
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.PowerOn, Ordinal: 1, MoRef: "new-web-1", State: plan.BackingOff, Fault: plan.Fault{
				Reason: "ResourceLimit", NeedsOperator: true, Message: "The hosts have too little memory left: free some."}}}
		})
		s.happens("the group is deleted, and the account isn't allowed to do that", func(o *plan.Observed) {
			remove(o)
			lacks.Message = "vCenter's user lacks VirtualMachine.Inventory.Delete on the VMs in /DC0/vm/vm-operator/default/web: grant it."
			o.Pending = map[string]plan.Pending{}
			for i := range o.State.VMs {
				vm := &o.State.VMs[i]
				vm.Power, vm.Marked, vm.Generation = plan.PoweredOff, true, o.Group.Generation
				o.Pending[plan.MemberName("web", vm.Ordinal)] = plan.Pending{Op: plan.Destroy, Ordinal: vm.Ordinal, MoRef: vm.MoRef, State: plan.BackingOff, Fault: lacks}
			}
		})
	},
	"abandoned": func(s *story) {
		s.happens("two members are applied", s.scale(2))
		s.happens("vCenter is permanently gone, and the group is deleted", func(o *plan.Observed) {
			o.State = plan.VCenterState{}
			remove(o)
		})
		s.happens("it is abandoned", func(o *plan.Observed) {
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		})
	},
}
