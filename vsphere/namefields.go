package vsphere

import (
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// The fields of a spec that name something a clone is connected with.
var (
	poolField      = inventory.Naming{Word: "cluster, host or resource pool", Flag: "spec.placement.pool", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	zonesField     = inventory.Naming{Word: "cluster, host or resource pool", Flag: "spec.placement.zones", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	datastoreField = inventory.Naming{Word: "datastore or datastore cluster", Flag: "spec.placement.datastore", Missing: vcfault.ReasonDatastoreNotFound, Ambiguous: vcfault.ReasonDatastoreAmbiguous}
	networkField   = inventory.Naming{Word: "network", Flag: "spec.networks", Missing: vcfault.ReasonNetworkNotFound, Ambiguous: vcfault.ReasonNetworkAmbiguous}
)
