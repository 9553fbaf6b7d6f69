package vsphere

import "github.com/vmware/govmomi/vim25/types"

func vmRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
}

func folderRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Folder", Value: moRef}
}

func vmRefs(moRefs []string) []types.ManagedObjectReference {
	refs := make([]types.ManagedObjectReference, len(moRefs))
	for i, moRef := range moRefs {
		refs[i] = vmRef(moRef)
	}
	return refs
}
