// Package check checks whether the server will work with a vCenter: the endpoint, the account, the objects that the settings and the groups
// name, the account's privileges, and, on request, vCenter's behavior.
//
// It uses the server's own code: it prepares a group's clone with the server's steps but does not create it. Only the deep check creates
// anything, in one folder of its own, and removes exactly that at its end. The password is sent only to an endpoint with a trusted
// certificate, Run logs out at its end, and Report contains no names from vCenter.
//
// It has no lock.
package check
