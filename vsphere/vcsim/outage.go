package vcsim

// Restart cuts all connections and drops all sessions and tasks: old sessions get NotAuthenticated, old tasks ManagedObjectNotFound.
// Running work completes without its task, so a clone appears after the restart. Admin keeps its session.
func (v *VCenter) Restart() {
	v.Down()
	v.DropSessions()
	v.ForgetTasks()
	v.Up()
}

// Heal withdraws all FailCall, LoseReply, FailTask and Deny.
func (v *VCenter) Heal() {
	v.HealCalls()
	v.HealTasks()
	v.AllowAll()
}

// Restore restores vCenter from a backup: newer VMs leave the inventory but keep running, newer events are lost, and their keys and moRefs
// are reused, without the tags that were on them. Sessions and tasks end. (Other changes stay: destroyed VMs do not return.)
func (v *VCenter) Restore(b *Backup) error {
	v.Down()
	defer v.Up()
	v.DropSessions()
	v.ForgetTasks()
	return v.Untag(v.ForgetSince(b)...)
}
