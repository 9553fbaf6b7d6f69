// Package vcfault turns vCenter's errors into faults that a status can show.
//
// It turns every error of a call, a task or the network into an *Error, by the types in the error's tree and never by its text, so that no other
// package reads error texts. An Error has a reason (one CamelCase word), a message that says what to do, and whether an operator must act. Messages
// contain no times and no ids of tasks or operations, so equal failures have equal messages. The cause of an Error is for the log only.
//
// The package makes no calls, keeps no state and has no locks.
package vcfault
