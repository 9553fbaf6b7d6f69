package planner_test

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// identify gives an instanceUuid to the VMs that have none.
func identify(o *plan.Observed) {
	for i := range o.State.VMs {
		if vm := &o.State.VMs[i]; vm.InstanceUUID == "" {
			vm.InstanceUUID = "id-of-" + vm.MoRef
		}
	}
}

// vanish removes the first VM of an ordinal from the inventory; how is what vCenter's events say.
func vanish(ordinal int32, how string) func(*plan.Observed) {
	return func(o *plan.Observed) {
		i := slices.IndexFunc(o.State.VMs, func(vm plan.VM) bool { return vm.Ordinal == ordinal })
		vm := o.State.VMs[i]
		o.State.VMs = slices.Delete(slices.Clone(o.State.VMs), i, i+1)
		o.State.Vanished = append(o.State.Vanished, plan.Vanished{MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID, Name: vm.Name, Ordinal: ordinal, How: how})
	}
}

// comeBack puts a VM that vanished back into the inventory, running, as it was made, with another moRef.
func comeBack(ordinal int32, moRef string) func(*plan.Observed) {
	return func(o *plan.Observed) {
		o.State.Vanished = slices.DeleteFunc(slices.Clone(o.State.Vanished), func(x plan.Vanished) bool { return x.MoRef == moRef })
		back := vm(o, ordinal)
		back.MoRef, back.InstanceUUID = moRef+"-back", "id-of-"+moRef
		o.State.VMs = append(o.State.VMs, back)
	}
}

const hostRemoved = `its host esx-1 was removed from the inventory by VSPHERE.LOCAL\alice`

// vanishStories are about members that leave vCenter's inventory without having been destroyed.
var vanishStories = map[string]func(*story){
	"vanished and back": func(s *story) {
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("three members are applied", nothing)
		s.happens("web-1 is not in the inventory any more", vanish(1, ""))
		s.happens("vCenter's events say why", func(o *plan.Observed) { o.State.Vanished[0].How = hostRemoved })
		s.happens("scaled to 4: web-1 is not made again", s.scale(4))
		s.happens("scaled to 3: the one that vanished is the one too many", s.scale(3))
		s.happens("another template: the others are replaced", edit(func(spec *v1alpha1.VmGroupSpec) { spec.CPU, spec.Update.Resize = 4, v1alpha1.ResizeReplace }))
		s.happens("its host is back, and the VM with another moRef", comeBack(1, "new-web-1"))
	},
	"another vCenter": func(s *story) {
		var kept []plan.VM
		here := func(there plan.VM) plan.VM {
			there.MoRef += "-here"
			return there
		}
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("three members are applied, to be replaced ten minutes after they vanish", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Healing.ReplaceVanishedAfterSeconds = new(int32(600))
		}))
		s.happens("another vCenter answers", func(o *plan.Observed) {
			kept, o.State.VMs, o.State.VCenter = slices.Clone(o.State.VMs), nil, "another"
		})
		s.happens("an operator says that it has the VMs, but the spec has moRefs", func(o *plan.Observed) {
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationMovedTo: "another"}
			edit(func(spec *v1alpha1.VmGroupSpec) {
				spec.Replace = []v1alpha1.Replacement{{Name: "web-0", MoRef: "vm-9"}}
			})(o)
		})
		s.happens("without them: two have come, and one has not", func(o *plan.Observed) {
			edit(func(spec *v1alpha1.VmGroupSpec) { spec.Replace = nil })(o)
			x := &kept[2]
			o.State.VMs = []plan.VM{here(kept[0]), here(kept[1])}
			o.State.Vanished = []plan.Vanished{{MoRef: x.MoRef + ":" + x.VCenter, InstanceUUID: x.InstanceUUID, Name: x.Name, Ordinal: 2, How: "it was in vCenter " + x.VCenter}}
		})
		s.happens("an hour later", func(o *plan.Observed) { o.Now = o.Now.Add(time.Hour) })
		s.happens("the third comes, and the annotation goes", func(o *plan.Observed) {
			o.Group.Annotations, o.State.Vanished = nil, nil
			o.State.VMs = append(slices.Clip(o.State.VMs), here(kept[2]))
		})
	},
	"another instanceUuid": func(s *story) {
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("three members are applied", nothing)
		s.happens("vCenter changes the instanceUuid of web-1", func(o *plan.Observed) { o.State.VMs[1].Renumbered = "another-id" })
		s.happens("and that of web-2; the group is deleted", func(o *plan.Observed) { o.State.VMs[2].Renumbered = "another-id"; remove(o) })
	},
	"vanished and replaced": func(s *story) {
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("three members are applied", nothing)
		s.happens("web-1 vanishes", vanish(1, hostRemoved))
		s.happens("spec.replace names another VM: nothing is done for that", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "vm-77"}}
		}))
		s.happens("spec.replace names it", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "new-web-1"}}
		}))
		s.happens("the first one comes back, and runs: it is powered off and kept, and the other serves on", comeBack(1, "new-web-1"))
		s.happens("an hour later", func(o *plan.Observed) { o.Now = o.Now.Add(time.Hour) })
		s.happens("the group is deleted: both go", remove)
	},
	"vanished for too long": func(s *story) {
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("three members are applied, to be replaced ten minutes after they vanish", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Healing.ReplaceVanishedAfterSeconds = new(int32)
			*spec.Healing.ReplaceVanishedAfterSeconds = 600
		}))
		s.happens("web-0 and web-1 are not in the inventory any more", func(o *plan.Observed) { vanish(0, "")(o); vanish(1, "")(o) })
		s.happens("vCenter's events say why: the time begins", func(o *plan.Observed) {
			o.State.Vanished = slices.Clone(o.State.Vanished)
			o.State.Vanished[0].How, o.State.Vanished[1].How = hostRemoved, hostRemoved
		})
		s.happens("the group is deleted while both first VMs are away", remove)
	},
	"vanished while deleted": func(s *story) {
		s.boot = func(o *plan.Observed, _ plan.Action) { identify(o) }
		s.happens("two members are applied, to be replaced ten minutes after they vanish", edit(func(spec *v1alpha1.VmGroupSpec) {
			two := int32(2)
			spec.Replicas = &two
			spec.Healing.ReplaceVanishedAfterSeconds = new(int32)
			*spec.Healing.ReplaceVanishedAfterSeconds = 600
		}))
		s.happens("web-1 vanishes, and the group is deleted: no time ends that", func(o *plan.Observed) {
			vanish(1, "it was unregistered by VSPHERE.LOCAL\\alice")(o)
			remove(o)
		})
		s.happens("spec.replace names it: it is left behind", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "new-web-1"}}
		}))
	},
}
