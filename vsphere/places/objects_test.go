package places

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestPathsBeginAtTheDatacenter(t *testing.T) {
	t.Parallel()
	ref := func(kind, id string) vim.ManagedObjectReference {
		return vim.ManagedObjectReference{Type: kind, Value: id}
	}
	d := Datacenter{Ref: ref("Datacenter", "dc-1"), Path: "/f/DC0"}
	object := func(o vim.ManagedObjectReference, name string, parent vim.ManagedObjectReference) vim.ObjectContent {
		return vim.ObjectContent{Obj: o, PropSet: []vim.DynamicProperty{{Name: "name", Val: name}, {Name: "parent", Val: parent}}}
	}
	folder, pod, lost := ref("Folder", "group-s1"), ref("StoragePod", "group-p1"), ref("Folder", "group-s2")
	got := d.namedObjects([]vim.ObjectContent{
		object(ref("Datastore", "datastore-1"), "a", pod), object(pod, "pod", folder), object(folder, "datastore", d.Ref),
		object(ref("Datastore", "datastore-2"), "b", lost), {Obj: ref("Datastore", "datastore-3")},
	})
	var paths []string
	for _, c := range Candidates(got, storageKinds...) {
		paths = append(paths, c.Path)
	}
	if vcfault.Listing(paths) != "/f/DC0/datastore/pod, /f/DC0/datastore/pod/a" {
		t.Errorf("got %q", paths)
	}
}
