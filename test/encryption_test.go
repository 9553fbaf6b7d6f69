package test

import (
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// encryptingPolicy is a storage policy that encrypts.
const encryptingPolicy = "VM Encryption Policy"

func encrypts(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy = encryptingPolicy }

// isEncrypted reports whether a VM and all its disks are encrypted.
func isEncrypted(d vcsim.Details) bool {
	all := d.Config.KeyId != nil
	for _, disk := range d.Disks {
		all = all && disk.Encrypted
	}
	return all
}

// poweredOnInTheClear returns a list to which each power-on of an unencrypted VM is added.
func (r *rig) poweredOnInTheClear() *[]string {
	found := new([]string)
	r.Rewrite(func(call any) {
		var on []types.ManagedObjectReference
		switch call := call.(type) {
		case *types.PowerOnVM_Task:
			on = []types.ManagedObjectReference{call.This}
		case *types.PowerOnMultiVM_Task:
			on = call.Vm
		}
		for _, vm := range r.VMs() {
			for _, ref := range on {
				if vm.Ref == ref && !isEncrypted(r.details(vm.Path)) {
					*found = append(*found, vm.Path)
				}
			}
		}
	})
	return found
}

// vCenter accepts no encrypting policy in a clone, so a member exists unencrypted for a while.
func TestNoMemberIsPoweredOnBeforeItsPolicyHasEncryptedIt(t *testing.T) {
	inRig(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}}, func(t *testing.T, r *rig) {
		inTheClear := r.poweredOnInTheClear()
		first := r.serve()
		g := first.group("web", 2)
		encrypts(&g.Spec)
		r.LoseReply("PbmQueryIOFiltersFromProfileId", 3)
		until(t, g, "that it is unknown whether the policy encrypts", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "storage policy service")
		})
		until(t, g, "the missing key provider", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "default key provider") && strings.Contains(a.Status.LastMessage, "spec.placement.storagePolicy")
		})
		if n := tally(r.members(), isOn); n > 0 {
			t.Errorf("%d members run; want none", n)
		}
		first.stop() // the next replica knows only from the stamps that the members must be encrypted
		r.AddKeyProvider()
		second := r.serve()
		upAt(t, g, second.url)
		for _, vm := range r.members() {
			if !isEncrypted(r.details(vm.Path)) {
				t.Errorf("%s runs in the clear", vm.Path)
			}
		}
		r.FailTask(vcsim.Reconfigure, nil, new(types.InvalidState), 0)
		g.Scale(3)
		until(t, g, "a clone that is not encrypted", func(metacontroller.Answer) bool { return len(r.members()) == 3 })
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Placement.StoragePolicy, s.Update.Strategy = otherTemplate, "", v1alpha1.UpdateOnDelete
		})
		until(t, g, "the edit", func(a metacontroller.Answer) bool { return a.Status.ObservedGeneration == g.Generation })
		if len(*inTheClear) > 0 {
			t.Errorf("powered on in the clear: %v; want none", *inTheClear)
		}
		r.Heal()
		r.Rewrite(nil) // the last edit removes the encrypting policy
		up(t, g)
		remove(t, g)
	})
}

func TestAnEditThatEncryptsReplacesMembersAndNewDisksOfTheseAreEncrypted(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.AddKeyProvider()
		g := r.serve().group("web", 2)
		g.Spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop", Create: true}}
		up(t, g)
		before := refs(r.members())
		inTheClear := r.poweredOnInTheClear()
		g.Edit(encrypts)
		r.updated(g, 1)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1}} }) // adding the first disk replaces the members
		r.updated(g, 1)
		now := refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks = append(s.Disks, v1alpha1.Disk{Name: "more", SizeGiB: 1}) })
		r.updated(g, 2)
		for _, vm := range r.members() {
			d := r.details(vm.Path)
			if before[vm.Name] == vm.Ref.Value || now[vm.Name] != vm.Ref.Value || len(d.Disks) != 3 || !isEncrypted(d) {
				t.Errorf("%s (%s, before %s and %s) has the disks %+v", vm.Name, vm.Ref.Value, before[vm.Name], now[vm.Name], d.Disks)
			}
		}
		if len(*inTheClear) > 0 {
			t.Errorf("powered on in the clear: %v; want none", *inTheClear)
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Clone.Mode = v1alpha1.CloneLinked })
		if text := blocked(t, g, "SnapshotNotFound"); text == "" {
			t.Error("the status has no message about the missing snapshot")
		}
		_, err := r.AddSnapshot("/DC0/vm/vm-operator-template", "base")
		r.must(err)
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, "clone.mode: Full") {
			t.Errorf("the status says %q; want %q in the text", text, "clone.mode: Full")
		}
		if n := tally(r.members(), isOn); n != 2 {
			t.Errorf("%d members run; want 2", n)
		}
		remove(t, g)
	})
}
