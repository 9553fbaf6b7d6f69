package inventory

import "github.com/vmware/govmomi/vim25/types"

// VMRef is the reference of a VM.
func VMRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
}

// FolderRef is the reference of a folder.
func FolderRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Folder", Value: moRef}
}

// VMRefs are the references of VMs.
func VMRefs(moRefs []string) []types.ManagedObjectReference {
	refs := make([]types.ManagedObjectReference, len(moRefs))
	for i, moRef := range moRefs {
		refs[i] = VMRef(moRef)
	}
	return refs
}
