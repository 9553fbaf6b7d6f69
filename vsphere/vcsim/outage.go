package vcsim

// Restart cuts all connections and forgets all sessions and tasks: the old sessions are NotAuthenticated,
// the old tasks ManagedObjectNotFound. What was running is still carried out, with no task to tell of
// it: a clone appears after the restart. Admin keeps its session.
func (v *VCenter) Restart() {
	v.Down()
	v.DropSessions()
	v.ForgetTasks()
	v.Up()
}

// Heal withdraws all that FailCall, LoseReply, FailTask and Deny ordered.
func (v *VCenter) Heal() {
	v.HealCalls()
	v.HealTasks()
	v.AllowAll()
}

// Restore restores vCenter from a backup: it does not know the VMs that were made since, which go on running; its events since then
// are lost, and their keys are given again; so are the moRefs. Sessions and tasks end. (What else happened since then stays: VMs that
// were destroyed do not come back.)
func (v *VCenter) Restore(b *Backup) {
	v.Down()
	v.DropSessions()
	v.ForgetTasks()
	v.ForgetSince(b)
	v.Up()
}
