// Package property is the PropertyCollector of the embedded vCenter: property reads and the stream of changes.
//
// Reads are copies without the objects hidden from the client. A stream sends the differences between two reads, and repeats a lost answer.
// (The simulator's own stream reads without locks and outlives its client.)
//
// Lock order: a stream's wait lock, which is held during a wait and whose waiters block durably; then the world lock, for reading; then the
// objects. The mutexes of streams (the one for all before those of single ones) are held only briefly.
package property
