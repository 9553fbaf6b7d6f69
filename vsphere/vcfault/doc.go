// Package vcfault turns vCenter's errors into faults that a status can show.
//
// It turns every error of a call, a task or the network into an *Error, by the types in the error's tree and never by its text, so that no other
// package reads error texts. An Error has a reason (one CamelCase word), a message that says what to do, and whether an operator must act. Equal
// failures give equal messages, without times and ids of tasks or operations. The cause of an Error is for the log only.
//
// The package makes no calls, keeps no state and has no locks.
package vcfault
