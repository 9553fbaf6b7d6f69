// Package role lists the privileges that vCenter must grant the server's user: those of each call that the server makes, and the least role,
// which has all of them.
//
// Tests require that the tables in the documents are those of this package, and that no package makes a call that it does not list. It is data:
// it makes no calls, keeps no state and has no locks.
package role
