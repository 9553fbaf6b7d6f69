package test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ours returns the VMs that have the group's stamp and are not copies, strays or templates.
func (l *life) ours() []vcsim.VM {
	return slices.DeleteFunc(l.VMs(), func(vm vcsim.VM) bool {
		stamp, err := stampOf(vm)
		return err != nil || !stamp.Owned(l.group.UID, vm.First) || isStray(vm) || vm.Template
	})
}

// mine returns the VMs of ours that are not in quarantine.
func (l *life) mine() []vcsim.VM {
	return slices.DeleteFunc(l.ours(), func(vm vcsim.VM) bool {
		stamp, _ := stampOf(vm)
		return !stamp.Quarantined.IsZero()
	})
}

// off returns how the group differs from its spec; empty if it doesn't.
func (l *life) off() string {
	if l.deleting {
		return "the former group is not gone"
	}
	s, perOrdinal, prints, standby := &l.group.Spec, map[int32]bool{}, map[string]bool{}, 0
	for _, vm := range l.ours() {
		stamp, _ := stampOf(vm)
		if !stamp.Quarantined.IsZero() {
			if l.watch.isExcused(vm.First) && l.reportsStray(vm) { // it was away, and nothing shows any more that it is that one: no server may destroy it
				continue
			}
			if text := l.offInQuarantine(vm, stamp); text != "" {
				return text
			}
			continue
		}
		if stamp.Standby && !isOn(vm) {
			standby++
		}
		if stamp.Marked || stamp.Standby == isOn(vm) || perOrdinal[stamp.Ordinal] {
			return fmt.Sprintf("%s: %s, %+v", vm.Path, vm.Power, stamp)
		}
		if stamp.Revision != l.revision() || vm.CPUs != s.CPU || vm.MemoryMB != 1024*s.Memory {
			return fmt.Sprintf("%s has %d CPUs, %d MiB, revision %s; want %d, %d GiB, %s", vm.Path, vm.CPUs, vm.MemoryMB, stamp.Revision, s.CPU, s.Memory, l.revision())
		}
		if text := l.offPlace(vm, stamp); text != "" {
			return text
		}
		perOrdinal[stamp.Ordinal] = true
		if stamp.Fingerprint != "" { // without a fingerprint, vCenter hid the contentIds when the member was cloned
			prints[stamp.Fingerprint] = true
		}
	}
	if len(perOrdinal)-standby != int(*s.Replicas) || standby != int(s.Standby) {
		return fmt.Sprintf("want %d members and %d standby ones, %d are; ordinals: %v", *s.Replicas, s.Standby, standby, perOrdinal)
	}
	if s.Update.OnTemplateChange == v1alpha1.TemplateChangeReplace && len(prints) > 1 {
		return fmt.Sprintf("members of %d versions of the template", len(prints))
	}
	return l.offRules()
}

// reportsStray reports whether the status lists a VM as a stray.
func (l *life) reportsStray(vm vcsim.VM) bool {
	return slices.ContainsFunc(l.group.Status.Strays, func(s v1alpha1.Stray) bool { return s.MoRef == vm.Ref.Value })
}

// offInQuarantine returns what is wrong with a VM in quarantine.
func (l *life) offInQuarantine(vm vcsim.VM, stamp stamp.Stamp) string {
	keep := time.Duration(l.group.Spec.Deletion.QuarantineSeconds) * time.Second
	switch {
	case stamp.Why != plan.MarkReasonDuplicate && (keep == 0 || time.Since(stamp.Quarantined) > keep+5*time.Minute):
		return fmt.Sprintf("%s is still kept: %+v", vm.Path, stamp)
	case isOn(vm):
		return fmt.Sprintf("%s is on in quarantine", vm.Path)
	}
	return ""
}

// revision returns the revision of the present spec.
func (l *life) revision() string {
	ref, wanted := plan.UserDataOf(&l.group.VmGroup)
	if !wanted || l.group.Related == nil {
		return plan.Revision(&l.group.Spec)
	}
	return plan.RevisionWith(&l.group.Spec, ref.Take([]byte(l.group.Related[0].Data["user-data"])).Digest)
}

// restore creates the Secret that the spec names again, if it was deleted.
func (l *life) restore() {
	if l.group.Spec.UserData != nil && l.group.Related == nil {
		l.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": "#cloud-config restored"}}}
	}
}

// offPlace returns what is wrong with a member's place, or with the data that its guest got.
func (l *life) offPlace(vm vcsim.VM, stamp stamp.Stamp) string {
	d, err := l.Details(vm.Path)
	if err != nil {
		return err.Error()
	}
	s := &l.group.Spec
	if zone := plan.ZoneOf(s, stamp.Ordinal); zone != "" && !strings.HasPrefix(d.Pool, "/DC0/host/"+zone+"/") {
		return fmt.Sprintf("%s is in %s, and not in %s", vm.Path, d.Pool, zone)
	}
	if want := l.group.Related; s.UserData != nil && guestInfo(l.t, d, "userdata") != want[0].Data["user-data"] {
		return vm.Path + " has other user data"
	}
	if address := fmt.Sprintf("10.0.0.%d", 10+stamp.Ordinal); len(s.Networks) > 0 && l.addressOf(d) != address {
		return fmt.Sprintf("the guest of %s gets %s, and not %s", vm.Path, l.addressOf(d), address)
	}
	if address := fmt.Sprintf("10.0.0.%d/24", 110+stamp.Ordinal); d.Customization == nil && plan.AddressCount(s) < 1000 &&
		strings.Contains(guestInfo(l.t, d, "metadata"), address) != (s.Networks[len(s.Networks)-1].IPv4.AdditionalRanges != nil) {
		return fmt.Sprintf("whether the guest of %s gets %s differs from the spec", vm.Path, address)
	}
	if key := "sched.cpu.latencySensitivity"; d.ExtraConfig[key] != s.ExtraConfig[key] {
		return fmt.Sprintf("%s has %s = %q", vm.Path, key, d.ExtraConfig[key])
	}
	shares := "normal"
	if n := s.Hardware.CPUShares; n != nil && n.Type == intstr.Int {
		shares = fmt.Sprintf("custom %d", n.IntVal)
	} else if n != nil {
		shares = strings.ToLower(n.StrVal)
	}
	if text := allocationOf(d.Config); stamp.Allocation != plan.AllocationOf(s) || !strings.HasPrefix(text, "CPU 0 to -1 "+shares+",") {
		return fmt.Sprintf("%s has %s, and the stamp %s", vm.Path, text, stamp.Allocation)
	}
	if s.Hardware.Version > 0 && d.Config.Version != fmt.Sprintf("vmx-%d", s.Hardware.Version) {
		return fmt.Sprintf("%s has the hardware version %s", vm.Path, d.Config.Version)
	}
	if (d.TPM != "") != s.Hardware.VTPM {
		return fmt.Sprintf("whether %s has a virtual TPM differs from the spec", vm.Path)
	}
	if isEncrypted(d) != (s.Placement.StoragePolicy == encryptingPolicy) {
		return fmt.Sprintf("whether %s is encrypted differs from the spec", vm.Path)
	}
	if got := pciDevices(&d.Config); !slices.Equal(got, s.Hardware.PCIDevices) {
		return fmt.Sprintf("%s has the devices %v", vm.Path, got)
	}
	if how := plan.DisksToChange(s, stamp.Given) + plan.DisksOtherwise(s, stamp.Given); how != "" && stamp.Former.Entry == "" {
		return vm.Path + " " + how
	}
	return l.offMarks(vm)
}

// addressOf returns the address that a member's guest gets: by its customization, or by cloud-init.
func (l *life) addressOf(d vcsim.Details) string {
	if c := d.Customization; c != nil {
		if ip, is := c.NicSettingMap[0].Adapter.Ip.(*vim.CustomizationFixedIp); is {
			return ip.IpAddress
		}
		return ""
	}
	_, rest, _ := strings.Cut(guestInfo(l.t, d, "metadata"), "10.0.0.")
	host, _, _ := strings.Cut(rest, "/24")
	return "10.0.0." + host
}

// offMarks returns what is wrong with a member's tags and attributes. It skips VMs whose marks an operator changed, as the server doesn't undo that.
func (l *life) offMarks(vm vcsim.VM) string {
	if l.retagged[vm.Ref.Value] {
		return ""
	}
	var tags []string
	for _, t := range l.group.Spec.Tags {
		tags = append(tags, t.Category+"/"+t.Name)
	}
	if got, err := l.TagsOf(vm.Path); err != nil || !slices.Equal(got, tags) {
		return fmt.Sprintf("%s has the tags %v, want %v (%v)", vm.Path, got, tags, err)
	}
	if got, err := l.AttributesOf(vm.Path); err != nil || got["owner"] != l.group.Spec.CustomAttributes["owner"] {
		return fmt.Sprintf("%s has the attributes %v, want %v (%v)", vm.Path, got, l.group.Spec.CustomAttributes, err)
	}
	return ""
}

// offRules returns what is wrong with the DRS rules. If the spec asks for rules, each cluster must have one rule that keeps its members apart if it has
// two or more, and one rule for each host group of its members.
func (l *life) offRules() string {
	wanted := plan.RulesOf(&l.group.Spec)
	for i := range 2 {
		cluster, apart, want := fmt.Sprintf("/DC0/host/DC0_C%d", i), []string(nil), map[string][]string{}
		for _, vm := range l.mine() {
			d, err := l.Details(vm.Path)
			if err != nil || !strings.HasPrefix(d.Host, cluster+"/") {
				continue
			}
			apart = append(apart, vm.Name)
			stamp, _ := stampOf(vm)
			if group, at := wanted.HostGroupOf(stamp.Ordinal); at >= 0 {
				what := fmt.Sprintf("on %s, required %t", group, wanted.HostsRequired())
				want[what] = append(want[what], vm.Name)
			}
		}
		if wanted.KeepApart() && len(apart) >= 2 {
			want[fmt.Sprintf("apart, required %t", wanted.AntiAffinity == v1alpha1.AntiAffinityRequired)] = apart
		}
		rules, err := l.Rules(cluster)
		if err != nil {
			return err.Error()
		}
		rules = l.withoutOrphans(rules)
		got := map[string][]string{}
		for _, rule := range rules {
			what := fmt.Sprintf("on %s, required %t", rule.HostGroup, rule.Mandatory)
			if rule.Separate {
				what = fmt.Sprintf("apart, required %t", rule.Mandatory)
			}
			got[what] = append(got[what], rule.VMs...)
		}
		for _, names := range want {
			slices.Sort(names)
		}
		if len(rules) != len(want) || !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("the rules of cluster %d are %+v; want %v", i, rules, want)
		}
	}
	return ""
}

// withoutOrphans leaves out the rules of former groups that reported that vCenter refused to remove their rules. Such a deletion completes anyway, and
// leaves rules that no longer name a VM.
func (l *life) withoutOrphans(rules []vcsim.Rule) []vcsim.Rule {
	return slices.DeleteFunc(rules, func(rule vcsim.Rule) bool {
		return len(rule.VMs) == 0 && slices.ContainsFunc(l.unruly, func(uid types.UID) bool { return strings.HasSuffix(rule.Name, " "+string(uid)) })
	})
}
