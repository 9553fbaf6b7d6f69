package attributes

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

func TestAttributesOfVMsPrecedeThoseOfAllObjectsAndThoseOfOtherTypesDoNotCount(t *testing.T) {
	t.Parallel()
	defs := []vim.CustomFieldDef{
		{Key: 1, Name: "a", ManagedObjectType: "HostSystem"}, {Key: 2, Name: "a"}, {Key: 3, Name: "a", ManagedObjectType: session.VMType},
		{Key: 4, Name: "b"}, {Key: 5, Name: "c", ManagedObjectType: "HostSystem"},
	}
	for name, key := range map[string]int32{"a": 3, "b": 4, "c": 0, "d": 0} {
		got := int32(0)
		if def := defOf(defs, name); def != nil {
			got = def.Key
		}
		if got != key {
			t.Errorf("the attribute %s has the key %d; want %d", name, got, key)
		}
	}
}
