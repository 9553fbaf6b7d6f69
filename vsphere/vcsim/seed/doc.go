// Package seed creates a new vCenter's inventory: datacenters, clusters, hosts, datastores and networks, but no VM.
//
// Two vCenters share none of it: the simulator's global state is copied or left out. While the simulator creates an inventory it waits
// under a lock that all vCenters of the process share, so in one testing/synctest bubble start one vCenter after the other.
package seed
