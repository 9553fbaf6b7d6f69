package inventory

import "github.com/vmware/govmomi/vim25/types"

func VMRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
}

func FolderRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Folder", Value: moRef}
}

func VMRefs(moRefs []string) []types.ManagedObjectReference {
	refs := make([]types.ManagedObjectReference, len(moRefs))
	for i, moRef := range moRefs {
		refs[i] = VMRef(moRef)
	}
	return refs
}
