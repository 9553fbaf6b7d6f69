// Package policy is the storage policy service (PBM) of the embedded vCenter: the policies and the datastores that satisfy them.
//
// Each vCenter has its own policies; govmomi's simulator shares them in the whole process.
//
// Lock order: the world before mu.
package policy
