// Package policy is the storage policy service of the embedded vCenter: which policies there are, and which datastores satisfy
// them.
//
// It promises that each vCenter has policies of its own; govmomi's simulator shares them among all of a process.
//
// The order of locks: the world before mu.
package policy
