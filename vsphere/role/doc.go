// Package role lists what vCenter must allow the server's user: each call that the server makes with the privileges that it needs, and
// the least role, which is made of them.
//
// It promises that the tables in the documents are made from it, and that no package makes a call that is not in it: a test reads the
// sources. It is data: it makes no calls, keeps no state and has no locks.
package role
