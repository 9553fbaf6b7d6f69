// Package seed makes the inventory that a vCenter begins with: datacenters, clusters, hosts, datastores and networks, but no VM.
//
// It promises that two vCenters share nothing of it: what the simulator keeps in globals is copied or left out. The simulator
// waits while it makes an inventory, under a lock that all vCenters of the process share, so that in one bubble of
// testing/synctest one is made after the other.
package seed
