// Package vcfault turns vCenter's errors into faults that a status can show.
//
// Every error of a call, a task or the network becomes an *Error here, by the types in its tree and never by its
// text, so that no other package reads error texts. An Error has a reason (one CamelCase word), a message that says what to
// do, and whether an operator has to act. Equal failures have equal bytes: no clock, and no id of a task or an operation. Its cause
// is only for the log.
//
// It makes no calls, keeps no state and has no locks.
package vcfault
