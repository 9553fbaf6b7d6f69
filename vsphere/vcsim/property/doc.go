// Package property is the PropertyCollector of the embedded vCenter: reads of properties, and the stream of what changed.
//
// It promises that what is read is a copy, without what is hidden from its reader, and that a stream tells the difference
// between two reads, and tells an answer again that was lost. (The simulator's own stream reads without locks, and outlives its
// client.)
//
// The order of locks: a stream's wait, which is held while it waits, and for which others wait durably; then the world, for
// reading; then the objects. The mutexes of streams (that of all before that of one) are held for moments only.
package property
