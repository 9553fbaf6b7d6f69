// Package wire is the network between the embedded vCenter and its clients: wires, outages of all of them, and injected faults.
//
// Calls break only as configured, each wire numbers its calls in order of arrival, and a break on one wire does not affect another. vCenter
// is an Endpoint, which knows nothing of this.
//
// Lock order: a wire's turn, which is held during the callback of On and whose waiters block durably; then the mutexes of the wire, the
// network and the gate, one at a time and only briefly.
package wire
