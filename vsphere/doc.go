// Package vsphere is this server's hands and eyes in vCenter.
//
// One session serves the whole process (client.go): it logs in once, again when vCenter forgot it, and out at
// the end. One watch says which VMs changed and one reader reads them (inventory). Each action is one vCenter
// task, and all running tasks are awaited together (tasks.go). A stamp in every VM says whose it is (stamp.go),
// and whatever goes wrong becomes a typed fault here, at the edge, so that nobody else reads error texts
// (vcfault).
package vsphere
