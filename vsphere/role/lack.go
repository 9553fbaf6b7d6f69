package role

import (
	"slices"
	"strings"
)

// scopesOf lists, by an object's type, the scopes in which the least role has privileges for it.
var scopesOf = map[string][]Scope{
	"Folder": {OnFolder}, "VirtualMachine": {OnFolder, OnTemplate}, "ResourcePool": {OnPool}, "VirtualApp": {OnPool}, "Datastore": {OnDatastore},
	"StoragePod": {OnDatastore}, "Network": {OnNetwork}, "DistributedVirtualPortgroup": {OnNetwork}, "DistributedVirtualSwitch": {OnNetwork},
	"OpaqueNetwork": {OnNetwork}, "ClusterComputeResource": {OnCluster},
}

// CouldLack returns the privileges of the least role that a call can need on an object of a type, or on any object if objectType is empty.
func CouldLack(method, objectType string) (could []Privilege) {
	scopes := scopesOf[objectType]
	for _, p := range least {
		here := scopes == nil || slices.ContainsFunc(p.On, func(s Scope) bool { return slices.Contains(scopes, s) })
		if here && !strings.HasPrefix(p.ID, "System.") && slices.Contains(calls[method], p.ID) {
			could = append(could, p)
		}
	}
	return could
}
