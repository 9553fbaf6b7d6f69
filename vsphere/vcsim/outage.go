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
