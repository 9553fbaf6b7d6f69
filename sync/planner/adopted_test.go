package planner_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// An adopted VM keeps its own hardware and disks: it differs from the spec in its size, and in what its stamp says that it was adopted for. A property of
// VMs that is compared in difference.go, and not listed here, is of hardware.
func TestAnAdoptedVMDiffersInNothingThatItHadBefore(t *testing.T) {
	t.Parallel()
	differs := []string{"CPU", "MemoryMB", "Allocation", "Revision", "Addresses", "Fingerprint", "Created"}
	place := []string{"MoRef", "Name", "Ordinal", "Folder", "Home", "VCenter", "InstanceUUID", "Former"}                             // which VM it is, and where
	state := []string{"Reachable", "Unreachable", "Marked", "MarkReason", "MarkedAt", "Quarantined", "Standby", "Prepared", "Power"} // what is done with it
	fields := reflect.TypeFor[plan.VM]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if slices.Contains(place, name) || slices.Contains(state, name) {
			continue
		}
		o := observed(1)
		o.Group.Spec.Hardware = v1alpha1.Hardware{Version: 21, CoresPerSocket: 1, VTPM: true, SecureBoot: new(true), BootDelaySeconds: 5, CPUHotAdd: new(true), MemoryHotAdd: new(true)}
		o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 10}}
		o.Group.Spec.Update.MaxAgeSeconds, o.Group.Spec.Update.OnTemplateChange = in(86400), v1alpha1.TemplateChangeReplace
		o.State.Template.Fingerprint = "now"
		addMembers(&o, 1, func(m *plan.VM) {
			m.Former, m.Folder, m.Created, m.Fingerprint, m.Disks = plan.Former{Entry: "vm-100", Name: m.Name, Folder: "group-v9"}, "group-v7", now.Add(-time.Hour), "now", ""
			m.Tools, m.BootTime = true, now.Add(-2*time.Hour)
			switch x := reflect.ValueOf(m).Elem().Field(i); {
			case x.Type() == reflect.TypeFor[time.Time]():
				x.Set(reflect.ValueOf(now.Add(-48 * time.Hour)))
			case x.Kind() == reflect.String:
				x.SetString("another")
			case x.Kind() == reflect.Pointer: // false, or 0
				x.Set(reflect.New(x.Type().Elem()))
			case x.CanInt():
				x.SetInt(7)
			case x.Kind() == reflect.Bool:
				x.SetBool(!x.Bool())
			}
		})
		r := planner.Make(o)
		if got, want := r.Status.UpdatedReplicas == 0, slices.Contains(differs, name); got != want {
			t.Errorf("with another %s, an adopted VM differs from the spec: %t; want %t", name, got, want)
		}
	}
}
