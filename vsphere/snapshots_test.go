package vsphere

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestASnapshotIsFoundByItsNameOrItsPath(t *testing.T) {
	ref := func(id string) vim.ManagedObjectReference {
		return vim.ManagedObjectReference{Type: "VirtualMachineSnapshot", Value: id}
	}
	tree := func(name, id string, below ...vim.VirtualMachineSnapshotTree) vim.VirtualMachineSnapshotTree {
		return vim.VirtualMachineSnapshotTree{Name: name, Snapshot: ref(id), ChildSnapshotList: below}
	}
	current := ref("s3")
	full := &vim.VirtualMachineSnapshotInfo{CurrentSnapshot: &current, RootSnapshotList: []vim.VirtualMachineSnapshotTree{
		tree("base", "s1", tree("patched", "s2", tree("base", "s3"))),
		tree("other", "s4", tree("patched", "s5")), tree("twin", "s6"), tree("twin", "s7"),
	}}
	noCurrent := &vim.VirtualMachineSnapshotInfo{RootSnapshotList: full.RootSnapshotList}
	for _, c := range []struct {
		from         *vim.VirtualMachineSnapshotInfo
		name, want   string
		reason, says string
	}{
		{full, "", "s3", "", ""},
		{full, "base", "s1", "", ""}, // the path of one, and only the name of the other
		{full, "base/patched", "s2", "", ""},
		{full, "base/patched/base", "s3", "", ""},
		{full, "other/patched", "s5", "", ""},
		{full, "patched", "", vcfault.ReasonSnapshotAmbiguous, "base/patched, other/patched"},
		{full, "twin", "", vcfault.ReasonSnapshotAmbiguous, "one of VirtualMachineSnapshot:s6, VirtualMachineSnapshot:s7."},
		{full, "VirtualMachineSnapshot:s7", "s7", "", ""},
		{full, "s7", "", vcfault.ReasonSnapshotNotFound, "VirtualMachineSnapshot:s7"},
		{full, "nope", "", vcfault.ReasonSnapshotNotFound, "base, base/patched"},
		{noCurrent, "", "", vcfault.ReasonSnapshotNotFound, "spec.clone.snapshot"},
		{nil, "", "", vcfault.ReasonSnapshotNotFound, "take one"},
		{nil, "base", "", vcfault.ReasonSnapshotNotFound, "take one"},
	} {
		got, err := source.FindSnapshot(c.from, v1alpha1.Clone{Mode: v1alpha1.CloneLinked, Snapshot: c.name}, "ubuntu")
		e := vctest.AsError(err)
		if got.Value != c.want || (e != nil) != (c.reason != "") || e != nil && (e.Reason != c.reason || !vctest.Mentions(e.Message, c.says)) {
			t.Errorf("%q: got the snapshot %q, and the error %v; want %q, and the reason %q", c.name, got.Value, err, c.want, c.reason)
		}
	}
}
