// Package check looks whether the server will work with a vCenter: the way there, the account, what the settings name, what the groups
// name, which privileges are held, and, if asked for, what vCenter does.
//
// It looks with the server's own code: a group's clone is put together by the server's steps, and not made. It promises that nothing is
// made but by the deep check, in one folder of its own; that whatever that made, and nothing else, is removed at its end; that the
// password is sent to nobody whose certificate is not trusted; that no session is left; and that Report names nothing of the vCenter's.
//
// Locks: trial.mu guards what its clones note. It is taken alone, and held across no call.
package check
