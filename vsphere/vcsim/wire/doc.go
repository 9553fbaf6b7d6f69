// Package wire is the network between the embedded vCenter and its clients: wires, the outages of all of them, and the faults
// that are ordered for calls.
//
// It promises that calls break only as told, that each wire knows its calls in the order of arrival, and that what breaks on
// one wire is not felt by another. vCenter is behind it as an Endpoint, which need not know of any of this.
//
// The order of locks: a wire's turn, which is held while On is asked, and for which others wait durably; then the mutexes of
// the wire, the network and the gate, which are held for moments only, and one at a time.
package wire
