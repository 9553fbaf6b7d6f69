// Package session keeps one login at vCenter for the whole process, by SOAP and, for tags, by REST, and makes the calls on it.
//
// It promises that concurrent callers share one login; that it replaces a session that vCenter dropped, and repeats the failed call;
// that it retries refused credentials so rarely that vCenter does not lock the account; that every result is an answer of vCenter's API
// or an error; that errors are *vcfault.Error; and that Logout leaves no session behind.
//
// Locks: Client.mu and the mutexes of the REST logins and of the authorities guard only fields. None is held while another is taken,
// across a call, or while a file is read.
package session
